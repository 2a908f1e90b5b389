#include "noisy_mean.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

using mechanisms::AdditiveLaw;

NoisyMean::NoisyMean(std::uint64_t count, Index dimension, double scale, double grid)
    : dimension_(static_cast<std::size_t>(std::max<Index>(dimension, 0))),
      count_(static_cast<double>(count)),
      scale_(scale),
      grid_(grid) {
  if (count < 1) throw std::invalid_argument("there must be at least one record");
  if (scale == 0.0 && grid != 0.0) throw std::invalid_argument("a grid needs noise");
  const auto law = scale == 0.0 ? AdditiveLaw::none : AdditiveLaw::gaussian;
  noise_ = mechanisms::make_additive_noise(law, drawn(), dimension, grid);
  // Rounding adds at most half a grid to each.
  limit_ = std::max(0.0, std::floor(0x1p50 / count_)) * grid;
}

void NoisyMean::add(double a, const double* x, double* sum, double* rest) const {
  const simd::Kernels& k = simd::kernels();
  if (grid_ == 0.0) {
    k.accumulate(a, x, dimension_, sum, rest);
  } else {
    k.accumulate_rounded(a, x, grid_, limit_, dimension_, sum);
  }
}

// On a grid there is noise in the sum, else in the mean.
double NoisyMean::drawn() const noexcept { return grid_ == 0.0 ? scale_ : scale_ * count_; }

double NoisyMean::scale() const {
  if (noise_->strength() != drawn() || noise_->grid() != grid_) {
    throw std::logic_error("a mean has other noise than it was built with");
  }
  return scale_;
}

void NoisyMean::mean(double* sum) const {
  for (std::size_t j = 0; j < dimension_; ++j) sum[j] /= count_;
}

void NoisyMean::release(random::Source& source, double* sum) const {
  if (grid_ == 0.0) mean(sum);
  noise_->release(sum, source, sum);
  if (grid_ != 0.0) mean(sum);
}

}  // namespace dpoco::frank_wolfe
