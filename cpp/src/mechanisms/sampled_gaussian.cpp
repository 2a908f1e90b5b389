#include "dpoco/mechanisms/sampled_gaussian.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dpoco/core/grid.hpp"

namespace dpoco::mechanisms {
namespace {

// Magnitudes from here on are not rounded to the public grid.
constexpr double kLimit = 0x1p51;

// Whatever x is, an integer that sums with noise hold exactly; inverse is a power of two.
inline double units(double x, double inverse) {
  const double kept = std::clamp(x * inverse, 1.0 - kLimit, kLimit - 1.0);
  return (kept + elementary::kRoundMagic) - elementary::kRoundMagic;
}

}  // namespace

SampledGaussian::SampledGaussian(std::uint64_t records, Index dimension, double scale, double grid)
    : records_(records),
      scale_(scale),
      grid_(grid),
      noise_(static_cast<std::size_t>(std::max<Index>(dimension, 0)), 0.0) {
  if (records < 1) throw std::invalid_argument("there must be at least one record");
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (!(scale >= 0.0) || !std::isfinite(scale)) {
    throw std::invalid_argument("the scale of the noise must be finite and not negative");
  }
  // 2^64 mod n words at the upper end would favour the lowest indices.
  last_ = ~std::uint64_t{0} - (std::uint64_t{0} - records) % records;
  if (scale > 0.0) {
    constexpr int kGridBits = 12;
    step_ = grid_below(scale, kGridBits);
    inverse_ = 1.0 / step_;
  }
  if (grid == 0.0) return;
  int exponent = 0;
  if (std::frexp(grid, &exponent) != 0.5 || !std::isfinite(1.0 / grid)) {
    throw std::invalid_argument("noise on a grid needs a power of two");
  }
  rounded_.emplace(scale / grid);  // exact
}

double SampledGaussian::scale() const {
  if (rounded_ && rounded_->scale() * grid_ != scale_) {
    throw std::logic_error("integers have other noise than they were built with");
  }
  return scale_;
}

void SampledGaussian::admit(const double* x, double* out) const {
  const std::size_t d = noise_.size();
  if (grid_ == 0.0) {
    if (out != x) std::copy(x, x + d, out);
    return;
  }
  const double inverse = 1.0 / grid_;
  for (std::size_t j = 0; j < d; ++j) out[j] = units(x[j], inverse) * grid_;
}

void SampledGaussian::release_exactly(const double* x, random::Source& source, double* out) {
  const std::size_t d = noise_.size();
  rounded_->fill(source, noise_.data(), d);
  const double* const z = noise_.data();
  const double grid = grid_;
  const double step = step_;
  const double magic = elementary::kRoundMagic * step;
  const double inverse = 1.0 / grid;
  for (std::size_t j = 0; j < d; ++j) {
    const double exact = (units(x[j], inverse) + z[j]) * grid;  // integers below 2^53
    const double rounded = (exact + magic) - magic;
    out[j] = std::fabs(exact) < kLimit * step ? rounded : exact;
  }
}

void SampledGaussian::release(const double* x, random::Source& source, double* out) {
  const std::size_t d = noise_.size();
  if (scale_ == 0.0) {
    std::copy(x, x + d, out);
    return;
  }
  if (rounded_) {
    release_exactly(x, source, out);
    return;
  }
  source.fill(random::Variate::gaussian, noise_.data(), d);
  const double* const z = noise_.data();
  const double scale = scale_;
  const double step = step_;
  const double inverse = inverse_;
  // nearest_multiple without a division or a branch.
  for (std::size_t j = 0; j < d; ++j) {
    const double exact = x[j] + scale * z[j];
    const double scaled = exact * inverse;
    const double rounded = ((scaled + elementary::kRoundMagic) - elementary::kRoundMagic) * step;
    out[j] = std::fabs(scaled) < kLimit ? rounded : exact;
  }
}

}  // namespace dpoco::mechanisms
