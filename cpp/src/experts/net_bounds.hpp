#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "dpoco/experts/linear_transform.hpp"

namespace dpoco::experts {

inline void check_limit(double limit) {
  if (!(limit > 0.0) || !std::isfinite(limit)) {
    throw std::invalid_argument("limits of differences must be positive and finite");
  }
}

inline bool all_finite(std::span<const double> values) noexcept {
  double zeros = 0.0;  // x - x is 0 or NaN; without branches, so that the loop vectorises
  for (const double value : values) zeros += value - value;
  return zeros == 0.0;
}

// For a round that has a value that is not finite: zeroes the row and counts all its entries as
// changed.
inline std::size_t zero_round(const LinearTransform& transform, std::span<double> out) noexcept {
  std::ranges::fill(out, 0.0);
  return transform.inputs();
}

// The bound also applies to infinite differences of finite values.
inline double bounded(double value, double limit) noexcept {
  const double low = value < -limit ? -limit : value;
  return low > limit ? limit : low;
}

// Returns whether the bound changes the value by more than the rounding errors of losses that
// respect it.
inline bool exceeds(double value, double limit) noexcept {
  return std::fabs(value) > limit * (1.0 + 1e-6);
}

}  // namespace dpoco::experts
