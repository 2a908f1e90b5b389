#pragma once

#include <cmath>

#include "dpoco/simd/elementary.hpp"

namespace dpoco {

// Published decisions are rounded to a public power of two well below the scale of their noise, so
// that their digits say nothing about how they were computed: post-processing, at no cost.
inline double grid_below(double spread, int bits) {
  return std::ldexp(1.0, std::ilogb(spread) - bits);
}

// x rounded to a multiple of `grid`, a power of two; x itself for grid 0 or beyond 2^51 multiples.
inline double nearest_multiple(double x, double grid) {
  if (grid == 0.0) return x;
  const double scaled = x / grid;  // exact
  constexpr double kLimit = 2251799813685248.0;
  if (!(std::fabs(scaled) < kLimit)) return x;
  return ((scaled + elementary::kRoundMagic) - elementary::kRoundMagic) * grid;
}

}  // namespace dpoco
