#pragma once

#include <memory>

#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/samplers/gibbs.hpp"
#include "fields.hpp"
#include "mechanism_fields.hpp"

namespace dpoco::bindings {

// What several engines are built from: each thing is read in one place. `read_...` takes its fields
// out of those of an engine, `make_...` what is whole.

std::unique_ptr<random::Source> read_source(Fields& from);  // key, stream

mechanisms::NoisyMaxSettings read_noisy_max(Fields& from);
mechanisms::AboveThresholdSettings read_above_threshold(Fields& from);
// cap: the name of the field with the largest number of switches, None for no cap.
mechanisms::SwitchSettings read_switches(Fields& from, std::uint64_t rounds, const char* cap);

experts::ExpertSettings read_experts(Fields& from);
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
