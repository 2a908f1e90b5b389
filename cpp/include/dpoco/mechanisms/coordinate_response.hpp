#pragma once

#include <memory>

#include "dpoco/core/types.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"

namespace dpoco::mechanisms {

// Randomised response on one coordinate of a vector x in [0, 1]^n. The mechanism draws a coordinate
// I uniformly and a bit b in {-1, 1} with P(b = 1) = 1/2 + (2 x_I - 1) tanh(epsilon / 2) / 2. The
// pair (I, b) is epsilon-private for any two vectors, also towards the collector of the bits. The
// release is the vector with b n / (2 tanh(epsilon / 2)) at I and 0 elsewhere, an unbiased estimate
// of x - 1/2 (docs/privacy/batch_share.md).
// Throws std::invalid_argument for dimension < 1 or epsilon not in (0, 700].
std::unique_ptr<VectorRelease> make_coordinate_response(double epsilon, Index dimension);

}  // namespace dpoco::mechanisms
