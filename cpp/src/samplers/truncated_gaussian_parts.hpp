#pragma once

// The samplers behind TruncatedGaussian, one file for each kind of body.

#include <span>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// Euclidean ball |u| <= radius in R^n, n >= 2. out may be mean; `work` has n entries.
void sample_ball(random::Source& source, double radius, std::span<const double> mean, double scale,
                 std::span<double> out, std::span<double> work);
double log_ball_mass(double radius, std::span<const double> mean, double scale);

// {x >= 0 : sum x = total} in R^n with mean and out in those coordinates; out may be mean; `work`
// has 2 n entries.
void sample_simplex(random::Source& source, double total, std::span<const double> mean,
                    double scale, std::span<double> out, std::span<double> work);

}  // namespace dpoco::samplers
