#pragma once

#include <cstddef>
#include <span>

#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// Draws i with probability weights_i / sum by a race: the smallest of E_i / weights_i, with
// independent exponentials E_i. Every entry keeps its relative precision, however small, so no
// truncated tail has to be accounted for (docs/privacy/samplers.md). Needs n >= 1 weights >= 0, not
// all zero, and as much scratch. O(n).
std::size_t draw_by_race(random::Source& source, std::span<const double> weights,
                         std::span<double> scratch);

// The same from logarithms of the weights, of which some may be -infinity: the largest of log w_i -
// ln E_i.
std::size_t draw_by_log_race(random::Source& source, std::span<const double> log_weights,
                             std::span<double> scratch);

// Draws i with probability weights_i / total from one uniform. total must be the kernels' sum of
// the weights. A weight below 2^-53 of the total may never be drawn. Only for post-processing of
// releases. O(n).
std::size_t draw_by_scan(double uniform, std::span<const double> weights, double total);

}  // namespace dpoco::samplers
