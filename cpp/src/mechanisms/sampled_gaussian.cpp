#include "dpoco/mechanisms/sampled_gaussian.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dpoco/core/grid.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::mechanisms {

SampledGaussian::SampledGaussian(std::uint64_t records, Index dimension, double scale)
    : records_(records),
      scale_(scale),
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
    grid_ = grid_below(scale, kGridBits);
    inverse_ = 1.0 / grid_;
  }
}

void SampledGaussian::release(const double* x, random::Source& source, double* out) {
  const std::size_t d = noise_.size();
  if (scale_ == 0.0) {
    std::copy(x, x + d, out);
    return;
  }
  source.fill(random::Variate::gaussian, noise_.data(), d);
  constexpr double kLimit = 0x1p51;
  const double* const z = noise_.data();
  const double scale = scale_;
  const double grid = grid_;
  const double inverse = inverse_;
  // nearest_multiple without a division or a branch.
  for (std::size_t j = 0; j < d; ++j) {
    const double exact = x[j] + scale * z[j];
    const double scaled = exact * inverse;
    const double rounded = ((scaled + elementary::kRoundMagic) - elementary::kRoundMagic) * grid;
    out[j] = std::fabs(scaled) < kLimit ? rounded : exact;
  }
}

}  // namespace dpoco::mechanisms
