#include "dpoco/local/simulate.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

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
               const Array& truth, const py::dict& settings, Array& kl, Array& tv, Array& weights) {
  if (tables.ndim() != 3) throw std::invalid_argument("tables must have three dimensions");
  Stage stage;
  Play& play = stage.play;
  play.tables = data(tables);
  play.contexts = static_cast<std::size_t>(tables.shape(0));
  play.hypotheses = static_cast<std::size_t>(tables.shape(1));
  play.labels = static_cast<std::size_t>(tables.shape(2));
  play.rounds = static_cast<std::size_t>(labels.size());
  play.label = labels.data();
  play.context = contexts.size() == 0 ? nullptr : contexts.data();
  if (play.context != nullptr && contexts.size() != labels.size()) {
    throw std::invalid_argument("contexts has the wrong number of entries");
  }
  play.first = settings["first"].cast<std::uint64_t>();
  play.mixing = settings["mixing"].cast<double>();
  play.named = settings["named"].cast<std::int64_t>();
  play.confidence = settings["confidence"].cast<double>();
  if (truth.size() != 0) {
    expect_size(truth, play.contexts * play.labels, "truth");
    expect_size(kl, play.rounds, "kl");
    expect_size(tv, play.rounds, "tv");
    play.truth = data(truth);
    stage.measured.kl = kl.mutable_data();
    stage.measured.tv = tv.mutable_data();
  }
  stage.checkpoints = settings["checkpoints"].cast<std::vector<std::uint64_t>>();
  expect_size(weights, stage.checkpoints.size() * play.hypotheses, "weights");
  stage.measured.weights = weights.mutable_data();
  return stage;
}

template <class Plan, class Learner>
py::dict run(Stage& stage, const Plan& plan, Learner& learner, random::Source& source) {
  stage.play.checkpoints = stage.checkpoints.data();
  stage.play.checkpoint_count = stage.checkpoints.size();
  {
    const py::gil_scoped_release nogil;  // the caller holds the learner's lock
    local::simulate(stage.play, plan, learner, source, stage.measured);
  }
  const Measured& measured = stage.measured;
  return py::dict("misses"_a = measured.misses, "first_miss"_a = measured.first_miss,
                  "subsets"_a = measured.subsets);
}

local::Channel channel_from(const std::string& name) {
  if (name == "bit") return local::Channel::bits;
  if (name == "subset") return local::Channel::subset;
  if (name == "auto") return local::Channel::automatic;
  throw std::invalid_argument("unknown channel");
}

py::dict simulate_posterior(local::Posterior& learner, random::Source& source, const Array& tables,
                            const Integers& contexts, const Integers& labels, const Array& truth,
                            const py::dict& settings, Array& kl, Array& tv, Array& weights) {
  Stage stage = stage_of(tables, contexts, labels, truth, settings, kl, tv, weights);
  local::PosteriorPlan plan{};
  plan.seed = settings["seed"].cast<std::uint64_t>();
  plan.family = local::family_from(settings["family"].cast<std::string>());
  plan.channel = channel_from(settings["channel"].cast<std::string>());
  plan.interactive = settings["interactive"].cast<bool>();
  plan.epsilon = settings["epsilon"].cast<double>();
  plan.bits = settings["bits"].cast<std::size_t>();
  plan.subset_size = settings["subset_size"].cast<std::size_t>();
  plan.response_gain = settings["response_gain"].cast<double>();
  plan.subset_gain = settings["subset_gain"].cast<double>();
  plan.contraction = settings["contraction"].cast<double>();
  plan.signal = settings["signal"].cast<double>();
  return run(stage, plan, learner, source);
}

py::dict simulate_hedge(local::Hedge& learner, random::Source& source, const Array& tables,
                        const Integers& contexts, const Integers& labels, const Array& truth,
                        const py::dict& settings, Array& kl, Array& tv, Array& weights) {
  Stage stage = stage_of(tables, contexts, labels, truth, settings, kl, tv, weights);
  local::HedgePlan plan{};
  plan.seed = settings["seed"].cast<std::uint64_t>();
  plan.epsilon = settings["epsilon"].cast<double>();
  plan.mixing = settings["mixing"].cast<double>();
  plan.exact_range = settings["exact_range"].cast<bool>();
  plan.half_range = settings["half_range"].cast<double>();
  plan.adaptive_rate = settings["adaptive_rate"].cast<bool>();
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
