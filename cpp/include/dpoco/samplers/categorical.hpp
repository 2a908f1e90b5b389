#pragma once

#include <cstddef>

#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// Draws i with probability weights_i / sum by a race: the smallest of E_i / weights_i, E_i
// independent exponentials. Every entry keeps its relative precision, however small, so that a
// draw has no truncated tail to pay for (docs/privacy/samplers.md). Needs n >= 1 weights >= 0, not
// all zero; scratch: n entries. O(n).
std::size_t draw_by_race(random::Source& source, const double* weights, std::size_t n,
                         double* scratch);

// The same from logarithms of the weights, -infinity allowed: the largest of log w_i - ln E_i.
std::size_t draw_by_log_race(random::Source& source, const double* log_weights, std::size_t n,
                             double* scratch);

// Draws i with probability weights_i / total from one uniform, total the kernels' sum of them; a
// weight below 2^-53 of the total may never be drawn. For post-processing of releases only. O(n).
std::size_t draw_by_scan(double uniform, const double* weights, double total, std::size_t n);

}  // namespace dpoco::samplers
