#pragma once

#include <cstdint>
#include <memory>

#include "dpoco/core/types.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::frank_wolfe {

// The mean of a batch's vectors with Gaussian noise. In doubles, sums are compensated: plain ones
// of two data sets that differ in one record could drift apart. On a grid each vector is rounded by
// itself, so that sums are exact, and stay as far apart as one record moves them.
class NoisyMean {
 public:
  // scale: deviation of the mean's noise, 0 for none. grid: of the sum, a power of two far below
  // its noise, or 0 for doubles. Throws std::invalid_argument if it does not suit the scale.
  NoisyMean(std::uint64_t count, Index dimension, double scale, double grid);

  // sum += a x, for one of `count` vectors; rest holds what rounding has lost, without a grid.
  void add(double a, const double* x, double* sum, double* rest) const;
  // The mean, in place of the sum. Not a release.
  void mean(double* sum) const;
  // The release, in place of the sum.
  void release(random::Source& source, double* sum) const;
  // Deviation of the mean's noise. Throws std::logic_error if it is not that of what draws it.
  double scale() const;
  double grid() const noexcept { return noise_->grid(); }

 private:
  double drawn() const noexcept;

  std::size_t dimension_;
  double count_;
  double scale_;
  double grid_;
  double limit_ = 0.0;  // of one entry of one vector: no sum passes 2^51 grids
  std::unique_ptr<mechanisms::VectorRelease> noise_;
};

}  // namespace dpoco::frank_wolfe
