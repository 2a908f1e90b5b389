#pragma once

#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// ||x||_order for order in [1, inf]. Entries are scaled by the largest one, so that no intermediate
// result under- or overflows. NaN if an entry is not finite, infinity if the norm itself overflows.
// The relative error is below (n + 16) 2^-52. O(n), allocation free, same bits on every machine.
double norm(std::span<const double> x, double order) noexcept;

// sum (|x_i| scale)^order for a finite order, without protection from under- and overflow; NaN if
// an entry is NaN. Order 3, the dual of the common p = 3/2, is computed without logarithms.
double power_sum(std::span<const double> x, double scale, double order) noexcept;

// A scale 2^k with 2^k max|x| in [1/2, 1), as two factors because one may not be representable.
struct PowerOfTwoScale {
  double first;
  double second;
  double apply(double x) const noexcept { return x * first * second; }
};

// For finite max_abs > 0, subnormal numbers included.
PowerOfTwoScale power_of_two_scale(double max_abs) noexcept;

}  // namespace dpoco::domains
