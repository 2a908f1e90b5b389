#include "dpoco/mechanisms/additive_noise.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "dpoco/core/grid.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/exponential.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::mechanisms {
namespace {

using random::Source;
using random::Variate;

// As for continual sums: fine enough to add less than 1e-8 of the variance, and coarse enough that
// the cells' probabilities do not depend on the spacing of the noise's doubles.
constexpr int kGridBits = 12;

const char* law_name(AdditiveLaw law) noexcept {
  switch (law) {
    case AdditiveLaw::cube_exponential:
      return "knorm";
    case AdditiveLaw::gaussian:
      return "gaussian";
    case AdditiveLaw::laplace:
      return "laplace";
    case AdditiveLaw::none:
      break;
  }
  return "none";
}

class AdditiveNoise final : public VectorRelease {
 public:
  AdditiveNoise(AdditiveLaw law, double scale, Index dimension)
      : law_(law),
        scale_(law == AdditiveLaw::none ? 0.0 : scale),
        noise_(static_cast<std::size_t>(std::max<Index>(dimension, 0)), 0.0) {
    if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
    if (law == AdditiveLaw::none) return;
    if (!(scale > 0.0) || !std::isfinite(scale)) {
      throw std::invalid_argument("the scale of the noise must be positive and finite");
    }
    grid_ = grid_below(scale, kGridBits);
  }

  void release(std::span<const double> x, Source& source, std::span<double> out) override {
    assert(x.size() == noise_.size() && out.size() == noise_.size());
    draw(source);
    for (std::size_t i = 0; i < noise_.size(); ++i) {
      out[i] = nearest_multiple(x[i] + noise_[i], grid_);
    }
  }

  bool accounts_for(const Source& source, std::uint64_t releases,
                    std::uint64_t uniforms) const override {
    const std::uint64_t entries = releases * noise_.size();
    const bool cube = law_ == AdditiveLaw::cube_exponential;
    // Values in the tails are drawn again from words, whose number is random.
    return source.position(Variate::uniform) == uniforms + (cube ? entries : 0) &&
           source.position(Variate::exponential) == (cube ? entries + releases : 0) &&
           source.position(Variate::gaussian) == (law_ == AdditiveLaw::gaussian ? entries : 0) &&
           source.position(Variate::laplace) == (law_ == AdditiveLaw::laplace ? entries : 0);
  }

  double strength() const noexcept override { return scale_; }
  const char* law() const noexcept override { return law_name(law_); }

 private:
  void draw(Source& source) {
    switch (law_) {
      case AdditiveLaw::cube_exponential:
        noise::cube_exponential(source, scale_, noise_);
        break;
      case AdditiveLaw::gaussian:
        noise::gaussian(source, scale_, noise_);
        break;
      case AdditiveLaw::laplace:
        noise::laplaces(source, noise_);
        for (double& each : noise_) each *= scale_;
        break;
      case AdditiveLaw::none:
        break;
    }
  }

  AdditiveLaw law_;
  double scale_;
  double grid_ = 0.0;
  std::vector<double> noise_;
};

// The same release in integers times a power of two.
class LatticeNoise final : public VectorRelease {
 public:
  LatticeNoise(AdditiveLaw law, double scale, Index dimension, double grid)
      : scale_(scale),
        grid_(grid),
        dimension_(static_cast<std::size_t>(std::max<Index>(dimension, 0))) {
    int exponent = 0;
    if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
    if (std::frexp(grid, &exponent) != 0.5) {
      throw std::invalid_argument("noise on a grid needs a power of two");
    }
    if (law == AdditiveLaw::gaussian) {
      gaussian_.emplace(scale / grid);  // exact
      gaussians_.assign(dimension_, 0.0);
    } else if (law == AdditiveLaw::laplace) {
      laplace_.emplace(noise::Ratio{scale, grid});
      laplaces_.assign(dimension_, 0);
    } else {
      throw std::invalid_argument("this noise is not drawn on a grid");
    }
    step_ = grid_below(scale, kGridBits);
  }

  void release(std::span<const double> x, Source& source, std::span<double> out) override {
    assert(x.size() == dimension_ && out.size() == dimension_);
    if (gaussian_) {
      gaussian_->fill(source, gaussians_);
      add(gaussians_, x, out);
    } else {
      laplace_->draw_many(source, laplaces_);
      add(laplaces_, x, out);
    }
  }

  bool accounts_for(const Source& source, std::uint64_t releases,
                    std::uint64_t uniforms) const override {
    // Laplace variates are computed from words, whose number is random.
    const std::uint64_t entries = gaussian_ ? releases * dimension_ : 0;
    return source.position(Variate::uniform) == uniforms &&
           source.position(Variate::exponential) == 0 &&
           source.position(Variate::gaussian) == entries && source.position(Variate::laplace) == 0;
  }

  double strength() const noexcept override {
    return gaussian_ ? gaussian_->scale() * grid_ : scale_;
  }
  const char* law() const noexcept override {
    return law_name(gaussian_ ? AdditiveLaw::gaussian : AdditiveLaw::laplace);
  }
  double grid() const noexcept override { return grid_; }

 private:
  template <class Number>
  void add(const std::vector<Number>& noise, std::span<const double> x,
           std::span<double> out) const {
    const double grid = grid_;
    const double step = step_;
    const double ratio = grid / step;
    for (std::size_t i = 0; i < dimension_; ++i) {
      // Whatever x is, the result is an integer that conversions and sums represent exactly.
      const double within = std::clamp(x[i] / grid, -0x1p51 + 1.0, 0x1p51 - 1.0);
      const Number sum = static_cast<Number>(nearest_multiple(within, 1.0)) + noise[i];
      out[i] = nearest_multiple(static_cast<double>(sum) * ratio, 1.0) * step;
    }
  }

  double scale_;
  double grid_;
  double step_ = 0.0;  // of the released values: post-processing
  std::size_t dimension_;
  std::vector<double> gaussians_;
  std::vector<std::int64_t> laplaces_;
  std::optional<noise::RoundedGaussian> gaussian_;
  std::optional<noise::DiscreteLaplace> laplace_;
};

}  // namespace

std::unique_ptr<VectorRelease> make_additive_noise(AdditiveLaw law, double scale, Index dimension,
                                                   double grid) {
  if (grid != 0.0) return std::make_unique<LatticeNoise>(law, scale, dimension, grid);
  return std::make_unique<AdditiveNoise>(law, scale, dimension);
}

}  // namespace dpoco::mechanisms
