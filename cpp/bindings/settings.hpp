#pragma once

#include <memory>
#include <optional>

#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/core/batch_sum.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/samplers/gibbs.hpp"
#include "fields.hpp"
#include "mechanism_fields.hpp"

namespace dpoco::bindings {

// What several engines are built from: each thing is read in one place. `read_...` takes its fields
// out of those of an engine, `make_...` a description that is whole.

std::unique_ptr<random::Source> read_source(Fields& from);  // key, stream

mechanisms::ContinualSum make_continual_sum(Fields from,
                                            std::optional<losses::RecordClipper> clipper);
// cap: the name of the field with the largest number of switches, None for no cap.
mechanisms::SwitchSettings read_switches(Fields& from, std::uint64_t rounds, const char* cap);

bandits::BanditSettings read_bandit(Fields& from);
std::unique_ptr<frank_wolfe::FrankWolfe> make_frank_wolfe(
    std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
    const losses::RecordClipper& clipper, Fields from, const Array& start);

// kind ("linear", "glm", "quadratic" or "custom"), unbounded, and what that kind needs: clipper,
// glm, lipschitz, smoothness, radius.
std::unique_ptr<losses::LossSum> make_loss_sum(std::shared_ptr<const domains::Domain> domain,
                                               Fields from);
// Brings in a user's loss object, for a sum of kind "custom"; the interpreter lock is held.
// Exceptions of the object pass through and leave the sum as it was.
samplers::GibbsChain chain_named(const std::string& name);
void stage_object(losses::LossSum& sum, const py::object& loss);

}  // namespace dpoco::bindings
