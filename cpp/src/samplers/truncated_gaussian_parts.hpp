#pragma once

// The bodies behind TruncatedGaussian, one file each.

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// Euclidean ball |u| <= radius, n >= 2. out may be mean; `work` holds n numbers.
void sample_ball(random::Source& source, Index n, double radius, const double* mean, double scale,
                 double* out, double* work);
double log_ball_mass(Index n, double radius, const double* mean, double scale);

// {x >= 0 : sum x = total} in R^n with mean and out in those coordinates; out may be mean. `work`
// holds 2 n numbers.
void sample_simplex(random::Source& source, Index n, double total, const double* mean, double scale,
                    double* out, double* work);

}  // namespace dpoco::samplers
