#include "dpoco/local/simulate.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using Labels = std::span<const std::int64_t>;
using local::Measured;
using local::Play;

// The arrays of a simulation, and its measurements.
struct Stage {
  Play play{};
  Measured measured{};
  std::vector<std::uint64_t> checkpoints;
};

// tables (C, K, M); contexts empty for none; truth empty or (C, M).
Stage stage_of(const Array& tables, Labels contexts, Labels labels, Reals truth, Fields& from,
               RealsOut kl, RealsOut tv, RealsOut weights) {
  if (tables.ndim() != 3) throw std::invalid_argument("tables must have three dimensions");
  Stage stage;
  Play& play = stage.play;
  play.tables = entries(tables);
  play.contexts = static_cast<std::size_t>(tables.shape(0));
  play.hypotheses = static_cast<std::size_t>(tables.shape(1));
  play.labels = static_cast<std::size_t>(tables.shape(2));
  play.label = labels;
  play.context = contexts;
  if (!contexts.empty()) expect_size(contexts, labels.size(), "contexts");
  from.read("first", play.first);
  from.read("mixing", play.mixing);
  from.read("named", play.named);
  from.read("confidence", play.confidence);
  if (!truth.empty()) {
    expect_size(truth, play.contexts * play.labels, "truth");
    expect_size(kl, labels.size(), "kl");
    expect_size(tv, labels.size(), "tv");
    play.truth = truth;
    stage.measured.kl = kl;
    stage.measured.tv = tv;
  }
  from.read("checkpoints", stage.checkpoints);
  expect_size(weights, stage.checkpoints.size() * play.hypotheses, "weights");
  stage.measured.weights = weights;
  return stage;
}

template <class Plan, class Learner>
py::dict run(Stage& stage, const Plan& plan, Learner& learner, random::Source& source) {
  stage.play.checkpoints = stage.checkpoints;
  {
    const py::gil_scoped_release nogil;  // the caller holds the learner's lock
    local::simulate(stage.play, plan, learner, source, stage.measured);
  }
  const Measured& measured = stage.measured;
  return py::dict("misses"_a = measured.misses, "first_miss"_a = measured.first_miss,
                  "subsets"_a = measured.subsets);
}

py::dict simulate_posterior(local::Posterior& learner, random::Source& source, const Array& tables,
                            Labels contexts, Labels labels, Reals truth, const py::object& settings,
                            RealsOut kl, RealsOut tv, RealsOut weights) {
  Fields from(settings, "a simulation");
  Stage stage = stage_of(tables, contexts, labels, truth, from, kl, tv, weights);
  local::PosteriorPlan plan{};
  from.read("seed", plan.seed);
  plan.family = local::family_from(from.read<std::string>("family"));
  plan.channel = from.read_name<local::Channel>("channel", {{"bit", local::Channel::bits},
                                                            {"subset", local::Channel::subset},
                                                            {"auto", local::Channel::automatic}});
  from.read("interactive", plan.interactive);
  from.read("epsilon", plan.epsilon);
  from.read("bits", plan.bits);
  from.read("subset_size", plan.subset_size);
  from.read("response_gain", plan.response_gain);
  from.read("subset_gain", plan.subset_gain);
  from.read("contraction", plan.contraction);
  from.read("signal", plan.signal);
  from.finish();
  return run(stage, plan, learner, source);
}

py::dict simulate_hedge(local::Hedge& learner, random::Source& source, const Array& tables,
                        Labels contexts, Labels labels, Reals truth, const py::object& settings,
                        RealsOut kl, RealsOut tv, RealsOut weights) {
  Fields from(settings, "a simulation");
  Stage stage = stage_of(tables, contexts, labels, truth, from, kl, tv, weights);
  local::HedgePlan plan{};
  from.read("seed", plan.seed);
  from.read("epsilon", plan.epsilon);
  plan.mixing = stage.play.mixing;
  from.read("exact_range", plan.exact_range);
  from.read("half_range", plan.half_range);
  from.read("adaptive_rate", plan.adaptive_rate);
  from.finish();
  return run(stage, plan, learner, source);
}

}  // namespace

void register_local_simulate(py::module_& m) {
  m.def("local_simulate_posterior", &simulate_posterior);
  m.def("local_simulate_hedge", &simulate_hedge);
}

}  // namespace dpoco::bindings
