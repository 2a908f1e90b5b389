#pragma once

#include <memory>

#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/samplers/gibbs.hpp"
#include "fields.hpp"
#include "mechanism_fields.hpp"

namespace dpoco::bindings {

// What several engines are built from, besides descriptions: each thing is made in one place.

// A gaussian_sum of leaves or selections of vertices, and what is made of what they release:
// horizon, and of sums step_scale and offset.
std::unique_ptr<frank_wolfe::FrankWolfe> make_frank_wolfe(
    std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
    const py::object& mechanism, Fields tuning, const py::object& claim, const Array& start);

// kind ("linear", "glm", "quadratic" or "custom"), unbounded, and what that kind needs: clipper,
// glm, lipschitz, smoothness, radius.
std::unique_ptr<losses::LossSum> make_loss_sum(std::shared_ptr<const domains::Domain> domain,
                                               Fields from);
// Throws std::invalid_argument unless losses are stated to have the dimension that they have.
void expect_dimension(const CoupledDraws& drawn, const losses::LossSum& sum);
// Brings in a user's loss object, for a sum of kind "custom"; the interpreter lock is held.
// Exceptions of the object pass through and leave the sum as it was.
samplers::GibbsChain chain_named(const std::string& name);
void stage_object(losses::LossSum& sum, const py::object& loss);

}  // namespace dpoco::bindings
