#pragma once

#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// An exact draw from N(mean, scale^2) conditioned on [low, high], low < high, either of which may
// be infinite; scale > 0. Rejection: every attempt is accepted with probability of at least 0.49,
// for all arguments (docs/privacy/samplers.md), and uses at most two variates. The distance to the
// nearer wall keeps its relative precision in the tails.
double truncated_normal(random::Source& source, double mean, double scale, double low, double high);

// A draw from the density proportional to exp(-rate x - x^2/2) on [0, length], rate >= 0, length in
// (0, infinity]: a standard normal beyond a wall at `rate`, measured from the wall. The acceptance
// is at least exp(-1/2).
double normal_tail(random::Source& source, double rate, double length);

// A Gamma(shape) variate conditioned on [0, limit], shape >= 1/2, limit > 0. Exact rejection with
// acceptance of at least 0.49.
double truncated_gamma(random::Source& source, double shape, double limit);

}  // namespace dpoco::samplers
