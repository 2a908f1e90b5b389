#include "dpoco/mechanisms/coordinate_response.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/samplers/categorical.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::mechanisms {
namespace {

using random::Source;
using random::Variate;

// tanh(x) for x > 0, by a series where the exponentials would cancel.
double stable_tanh(double x) {
  if (x < 1e-3) return x * (1.0 - x * x * (1.0 / 3.0 - x * x * (2.0 / 15.0)));
  const double e = elementary::exp(-2.0 * x);
  return (1.0 - e) / (1.0 + e);
}

class CoordinateResponse final : public VectorRelease {
 public:
  CoordinateResponse(double epsilon, Index dimension)
      : dimension_(static_cast<std::size_t>(std::max<Index>(dimension, 0))),
        epsilon_(epsilon),
        odds_(elementary::exp(-epsilon)) {
    if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
    // Beyond 708, e^-epsilon would be 0 and the ratio of the weights infinite.
    if (!(epsilon > 0.0 && epsilon <= 700.0)) {
      throw std::invalid_argument("epsilon must be in (0, 700]");
    }
    amplitude_ = static_cast<double>(dimension_) / (2.0 * stable_tanh(0.5 * epsilon));
    if (!std::isfinite(amplitude_)) throw std::invalid_argument("epsilon is too small");
  }

  void release(std::span<const double> x, Source& source, std::span<double> out) override {
    assert(x.size() == dimension_ && out.size() == dimension_);
    const auto n = static_cast<double>(dimension_);
    const auto place = static_cast<std::size_t>(source.uniform() * n);
    const std::size_t chosen = std::min(place, dimension_ - 1);
    const double value = x[chosen];
    // P(b = 1) : P(b = -1) = second weight : first weight. The draw is a race, which keeps the
    // relative precision of the smaller weight; a comparison with one uniform would not.
    const double weights[2] = {(1.0 - value) + value * odds_, value + (1.0 - value) * odds_};
    double scratch[2];
    const bool up = samplers::draw_by_race(source, weights, scratch) == 1;
    std::ranges::fill(out, 0.0);
    out[chosen] = up ? amplitude_ : -amplitude_;
  }

  bool accounts_for(const Source& source, std::uint64_t releases,
                    std::uint64_t uniforms) const override {
    return source.position(Variate::uniform) == uniforms + releases &&
           source.position(Variate::exponential) == 2 * releases &&
           source.position(Variate::gaussian) == 0 && source.position(Variate::laplace) == 0;
  }

  double strength() const noexcept override { return epsilon_; }
  const char* law() const noexcept override { return "response"; }

 private:
  std::size_t dimension_;
  double epsilon_;
  double odds_;  // e^-epsilon
  double amplitude_ = 0.0;
};

}  // namespace

std::unique_ptr<VectorRelease> make_coordinate_response(double epsilon, Index dimension) {
  return std::make_unique<CoordinateResponse>(epsilon, dimension);
}

}  // namespace dpoco::mechanisms
