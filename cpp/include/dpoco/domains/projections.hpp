#pragma once

#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// Euclidean projections of a finite x; out must not overlap x.

// Onto {y >= 0 : sum y = scale}. O(n log n), accurate for x of any size.
void project_simplex(std::span<const double> x, double scale, std::span<double> out);

// Onto {||y||_1 <= radius}. O(n log n).
void project_l1_ball(std::span<const double> x, double radius, std::span<double> out);

// Onto {||y||_2 <= radius}. O(n).
void project_l2_ball(std::span<const double> x, double radius, std::span<double> out);

// Onto {||y||_p <= radius}, 1 < p < inf: Newton's method on the dual variable, kept in a bracket.
// About ten sweeps over the coordinates; absolute error a few 1e-16 times max(|x|, radius).
void project_lp_ball(std::span<const double> x, double p, double radius, std::span<double> out);

}  // namespace dpoco::domains
