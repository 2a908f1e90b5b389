#pragma once

#include <memory>

#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/samplers/gibbs.hpp"
#include "fields.hpp"
#include "mechanism_fields.hpp"

namespace dpoco::bindings {

// Builders of parts that several engines need, besides descriptions.

// Reads a gaussian_sum of leaves or selections of vertices, and from `tuning` the horizon, and for
// sums step_scale and offset.
std::unique_ptr<frank_wolfe::FrankWolfe> make_frank_wolfe(
    std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
    const py::object& mechanism, Fields tuning, const py::object& claim, const Array& start);

// Reads kind ("linear", "glm", "quadratic" or "custom"), unbounded, and the fields of that kind:
// clipper, glm, lipschitz, smoothness, radius.
std::unique_ptr<losses::LossSum> make_loss_sum(std::shared_ptr<const domains::Domain> domain,
                                               Fields from);
// Throws std::invalid_argument unless the stated dimension of losses is that of the sum.
void expect_dimension(const CoupledDraws& drawn, const losses::LossSum& sum);
samplers::GibbsChain chain_named(const std::string& name);
// Stages a user's loss object in a sum of kind "custom". The caller must hold the interpreter lock.
// Exceptions of the object pass through and leave the sum unchanged.
void stage_object(losses::LossSum& sum, const py::object& loss);

}  // namespace dpoco::bindings
