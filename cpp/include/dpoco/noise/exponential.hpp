#pragma once

#include <span>

#include "dpoco/random/source.hpp"

namespace dpoco::noise {

using random::Source;

// Standard exponential variates without truncated tails. 64 random bits resolve the ends of the law
// only coarsely and not beyond a point. A variate in the outer 2^-32 of the law on either side is
// therefore drawn again from the word variates of the source, to relative 2^-32 however far out it
// lies. Mechanisms with this noise thus pay for no truncated tail: docs/privacy/noise.md.
double exponential(Source& source);
// Returns x, a value of the plain sampler, or a value drawn again if x lies in an outer end.
double mend(Source& source, double x);
void exponentials(Source& source, std::span<double> out);

// Laplace of scale 1: an exponential with a fair sign, both tails included.
void laplaces(Source& source, std::span<double> out);

// The vector Z of n entries with density proportional to exp(-max |z_i| / scale): Z = scale R U
// with R of law Gamma(n + 1) and U uniform in the cube [-1, 1]^n. O(n); both tails included.
void cube_exponential(Source& source, double scale, std::span<double> out);

}  // namespace dpoco::noise
