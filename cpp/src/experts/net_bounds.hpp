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

inline bool all_finite(const double* values, std::size_t n) noexcept {
  double zeros = 0.0;  // x - x is 0 or NaN; without branches, so that the loop vectorises
  for (std::size_t i = 0; i < n; ++i) zeros += values[i] - values[i];
  return zeros == 0.0;
}

// Every entry of a round that is not finite somewhere is replaced.
inline std::size_t zero_round(const LinearTransform& transform, double* out) noexcept {
  std::fill_n(out, transform.outputs(), 0.0);
  return transform.inputs();
}

// Infinite differences of finite values end at the limit, too.
inline double bounded(double value, double limit) noexcept {
  const double low = value < -limit ? -limit : value;
  return low > limit ? limit : low;
}

// Whether the bound changes more than what rounding of an honest loss can explain.
inline bool exceeds(double value, double limit) noexcept {
  return std::fabs(value) > limit * (1.0 + 1e-6);
}

}  // namespace dpoco::experts
