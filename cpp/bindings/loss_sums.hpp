#pragma once

#include "common.hpp"
#include "dpoco/losses/loss_sum.hpp"

namespace dpoco::bindings {

// The sum that `dpoco.oco` describes: kind ("linear", "glm", "quadratic" or "custom"), unbounded,
// and what that kind needs: clipper, glm, lipschitz, smoothness, radius.
std::unique_ptr<losses::LossSum> make_loss_sum(std::shared_ptr<const domains::Domain> domain,
                                               const py::dict& settings);

// Brings in a user's loss object, for a sum of kind "custom"; the interpreter lock is held.
// Exceptions of the object pass through and leave the sum as it was.
void stage_object(losses::LossSum& sum, const py::object& loss);

}  // namespace dpoco::bindings
