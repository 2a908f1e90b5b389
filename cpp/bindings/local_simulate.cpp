#include "dpoco/local/simulate.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using Integers = py::array_t<std::int64_t, py::array::c_style>;
using local::Measured;
using local::Play;

// The arrays behind a play, and what is measured on it.
struct Stage {
  Play play{};
  Measured measured{};
  std::vector<std::uint64_t> checkpoints;
};

// tables (C, K, M); contexts empty for none; truth empty or (C, M).
Stage stage_of(const Array& tables, const Integers& contexts, const Integers& labels,
               const Array& truth, Fields& from, Array& kl, Array& tv, Array& weights) {
  if (tables.ndim() != 3) throw std::invalid_argument("tables must have three dimensions");
  Stage stage;
  Play& play = stage.play;
  play.tables = entries(tables);
  play.contexts = static_cast<std::size_t>(tables.shape(0));
  play.hypotheses = static_cast<std::size_t>(tables.shape(1));
  play.labels = static_cast<std::size_t>(tables.shape(2));
  play.label = {labels.data(), static_cast<std::size_t>(labels.size())};
  play.context = {contexts.data(), static_cast<std::size_t>(contexts.size())};
  if (!play.context.empty() && contexts.size() != labels.size()) {
    throw std::invalid_argument("contexts has the wrong number of entries");
  }
  from.read("first", play.first);
  from.read("mixing", play.mixing);
  from.read("named", play.named);
  from.read("confidence", play.confidence);
  if (truth.size() != 0) {
    expect_size(truth, play.contexts * play.labels, "truth");
    expect_size(kl, play.label.size(), "kl");
    expect_size(tv, play.label.size(), "tv");
    play.truth = entries(truth);
    stage.measured.kl = writable(kl);
    stage.measured.tv = writable(tv);
  }
  from.read("checkpoints", stage.checkpoints);
  expect_size(weights, stage.checkpoints.size() * play.hypotheses, "weights");
  stage.measured.weights = writable(weights);
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
                            const Integers& contexts, const Integers& labels, const Array& truth,
                            const py::object& settings, Array& kl, Array& tv, Array& weights) {
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
                        const Integers& contexts, const Integers& labels, const Array& truth,
                        const py::object& settings, Array& kl, Array& tv, Array& weights) {
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
  m.def("local_simulate_posterior", &simulate_posterior, "learner"_a, "source"_a,
        "tables"_a.noconvert(), "contexts"_a.noconvert(), "labels"_a.noconvert(),
        "truth"_a.noconvert(), "settings"_a, "kl"_a.noconvert(), "tv"_a.noconvert(),
        "weights"_a.noconvert());
  m.def("local_simulate_hedge", &simulate_hedge, "learner"_a, "source"_a, "tables"_a.noconvert(),
        "contexts"_a.noconvert(), "labels"_a.noconvert(), "truth"_a.noconvert(), "settings"_a,
        "kl"_a.noconvert(), "tv"_a.noconvert(), "weights"_a.noconvert());
}

}  // namespace dpoco::bindings
