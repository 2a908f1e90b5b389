#pragma once

#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>

#include "dpoco/simd/elementary.hpp"

namespace dpoco {

// Adds x and the earlier rest to sum. rest becomes the rounding error of the addition to sum, which
// is exact (Knuth's two-sum). The sum stays within one rounding error of the true sum, however many
// summands there are. Plain rounding would let two streams that differ in one round drift apart:
// docs/privacy/continual_sum.md.
//
// V is double or a vector of doubles. Forced inline, because kernels of several instruction sets
// include it.
template <class V>
DPOCO_INLINE void add_compensated(V x, V& sum, V& rest) {
  const V y = x + rest;
  const V total = sum + y;
  const V added = total - sum;
  rest = (sum - (total - added)) + (y - added);
  sum = total;
}

// Checks restored states: returns whether each rest is possible for its sum, as a rounding error is
// less than the last digit of the sum.
inline bool are_rests(std::span<const double> sums, std::span<const double> rests) {
  assert(rests.size() == sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const bool possible =
        std::isfinite(sums[i]) && std::fabs(rests[i]) <= std::fabs(sums[i]) * 0x1p-52;
    if (!possible) return false;
  }
  return true;
}

}  // namespace dpoco
