#pragma once

#include <span>

namespace dpoco::domains {

// The point w of {sum w = 1, w_i >= floor} with the smallest relative entropy to v, given log v up
// to a common constant (-infinity allowed, but not for all entries): w_i = max(floor, c v_i). floor
// in [0, 1/n]; floor 0 normalises v. n is the length of all three; w may be log_v. O(n) per pass,
// with usually a few passes and at most n.
void project_floored_simplex(std::span<const double> log_v, double floor, std::span<double> scratch,
                             std::span<double> w);

}  // namespace dpoco::domains
