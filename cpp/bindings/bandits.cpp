#include "dpoco/bandits/bandit_learner.hpp"

#include <optional>
#include <vector>

#include "dpoco/bandits/linucb.hpp"
#include "dpoco/bandits/residual_phases.hpp"
#include "keyed_runs.hpp"
#include "registrars.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using bandits::BanditLearner;
using bandits::LinUcb;
using bandits::ResidualPhases;

namespace {

std::unique_ptr<LinUcb> make_linucb(const py::object& mechanism, const py::object& tuning,
                                    const py::object& claim) {
  bandits::BanditSettings shared;
  bandits::LinUcbSettings own;
  const auto [total, clipper] = read_gaussian_sum(mechanism, [&](Fields& summand) {
    summand.expect_kind("second_moments");
    summand.read("arms", shared.arms);
    summand.read("label", shared.reward_high);
    summand.read("weight", own.reward_weight);
    summand.skip("rounding");  // a constant of the proof, for products in doubles
    return read_features(summand);
  });
  if (total.batches.growth != Growth::none) {
    throw std::invalid_argument("batches of a bandit do not grow");
  }
  shared.reward_low = -shared.reward_high;
  own.batch = total.batches.first;
  read_whole({tuning, "the tuning of a linear bandit"}, [&](Fields& from) {
    from.read("rounds", shared.horizon);
    from.read("shift", own.shift);
    if (from.has("kept")) from.read("kept", own.kept);
    from.read("exploration", own.exploration);
    from.read("spread", own.spread);
    from.read("log_term", own.log_term);
    from.read("growth", own.growth);
    from.read("bias", own.bias);
    return shared.horizon;
  });
  own.exact = own.batch == 1 && total.settings.scale == 0.0 && own.kept == 1.0;
  // The learner itself bounds the vector of a round, so the sum needs no clipper.
  return std::make_unique<LinUcb>(shared, clipper, own,
                                  mechanisms::make_sum(total.settings, read_claim(claim)));
}

std::unique_ptr<ResidualPhases> make_residual_phases(const py::object& mechanism,
                                                     const py::object& tuning,
                                                     const py::object& claim) {
  bandits::BanditSettings shared;
  bandits::ResidualPhasesSettings own;
  auto [total, clipper] = read_gaussian_sum(mechanism, [&](Fields& summand) {
    summand.expect_kind("residual_statistics");
    summand.read("arms", shared.arms);
    summand.read("weight", own.weight);
    summand.read("mark", own.mark);
    summand.read("mean", own.mean);
    if (summand.read<std::size_t>("bins") != ResidualPhases::kBins) {
      throw std::invalid_argument("residuals are counted in another number of bins");
    }
    const auto dimension = summand.read<Index>("dimension");
    return losses::RecordClipper(dimension, summand.read<double>("features"), 2.0);
  });
  own.phases = total.batches;
  own.factor = total.settings.blt;
  read_whole({tuning, "the tuning of a bandit in phases"}, [&](Fields& from) {
    from.read("horizon", shared.horizon);
    from.read("reward_bound", shared.reward_high);
    from.read("parameter_bound", own.parameter_bound);
    from.read("reward_noise", own.reward_noise);
    from.read("one_hot", own.one_hot);
    from.read("intercept", own.intercept);
    from.read("half_life", own.half_life);
    return shared.horizon;
  });
  shared.reward_low = -shared.reward_high;
  return std::make_unique<ResidualPhases>(shared, std::move(clipper), own,
                                          mechanisms::make_sum(total.settings, read_claim(claim)));
}

using Choices = std::span<std::int64_t>;

// Releases the interpreter lock while the rounds are played.
void run_bandit(BanditLearner& self, Reals contexts, Reals rewards, Choices chosen,
                RealsOut own_rewards) {
  expect_size(contexts, chosen.size() * self.dimension(), "contexts");
  expect_size(rewards, chosen.size() * self.arms(), "rewards");
  expect_size(own_rewards, chosen.size(), "own_rewards");
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is used below
  self.run(entered, contexts, rewards, chosen, own_rewards);
}

// The same for many bandits at once: bandit i plays the rows that `keyed_rows` assigns to it.
void run_keyed_bandits(const py::list& learners, const Integers& offsets, const Integers& rows,
                       Reals contexts, Reals rewards, Choices chosen, RealsOut own_rewards,
                       std::size_t workers) {
  const KeyedRows to = keyed_rows(learners, offsets, rows, own_rewards.size());
  if (learners.empty()) return;
  const auto d = common<BanditLearner>(learners, &BanditLearner::dimension);
  const auto arms = common<BanditLearner>(learners, &BanditLearner::arms);
  expect_size(contexts, own_rewards.size() * d, "contexts");
  expect_size(rewards, own_rewards.size() * arms, "rewards");
  expect_size(chosen, own_rewards.size(), "chosen");
  play_keyed<BanditLearner>(learners, to, workers,
                            [=](BanditLearner& learner, const Exclusive::Entry& entry,
                                std::size_t row, std::size_t count) {
                              learner.run(entry, contexts.subspan(row * d, count * d),
                                          rewards.subspan(row * arms, count * arms),
                                          chosen.subspan(row, count),
                                          own_rewards.subspan(row, count));
                            });
}

std::uint64_t replay_bandit(BanditLearner& self, Reals contexts,
                            std::span<const std::int64_t> actions, Reals rewards, Choices chosen) {
  expect_size(contexts, rewards.size() * self.dimension(), "contexts");
  expect_size(actions, rewards.size(), "actions");
  expect_size(chosen, rewards.size(), "chosen");
  const auto entered = self.enter();
  const py::gil_scoped_release nogil;
  return self.replay(entered, contexts, actions, rewards, chosen);
}

void recommend_bandit(BanditLearner& self, Reals contexts, Choices chosen,
                      const std::optional<Plain<bool>>& allowed) {
  expect_size(contexts, chosen.size() * self.dimension(), "contexts");
  BanditLearner::Mask mask;
  if (allowed) {
    expect_size(*allowed, self.arms(), "allowed");
    // Read as bytes, because a bool in the caller's memory need not be 0 or 1.
    const void* bytes = static_cast<const py::array&>(*allowed).data();
    mask = {static_cast<const std::uint8_t*>(bytes), self.arms()};
  }
  const auto entered = self.enter();
  const py::gil_scoped_release nogil;
  self.recommend(entered, contexts, chosen, mask);
}

// Methods of bandits whose estimates come from one private sum.
template <class Bandit, class Released>
void bind_sum(py::class_<Bandit, BanditLearner>& bandit, Released released) {
  const auto entries_of = [](const Bandit& self) { return self.arms() * self.dimension(); };
  const auto size = [](const Bandit& self) { return self.sum().dimension(); };
  bandit.def("coefficients", array_getter<const Bandit>(entries_of, &Bandit::coefficients))
      .def("released", array_getter<const Bandit>(size, released))
      .def("leaf",
           [](const Bandit& self, std::uint64_t arm, Reals context, double reward) {
             expect_size(context, self.dimension(), "context");
             if (arm >= self.arms()) throw std::invalid_argument("arm does not exist");
             Array out(self.sum().dimension());
             self.leaf(arm, context, reward, writable(out));
             return out;
           })
      .def("nonprivate_sum", [](const Bandit& self) {
        const auto entered = self.enter();
        return make_array(self.sum().nonprivate_sum());
      });
}

}  // namespace

void register_bandits(py::module_& m) {
  py::class_<BanditLearner> learner(m, "BanditLearner");
  learner
      .def("decide",
           [](BanditLearner& self, std::uint64_t decided, Reals context) {
             expect_size(context, self.dimension(), "context");
             return self.decide(decided, context);
           })
      .def("observe", &BanditLearner::observe)
      .def("due",
           [](const BanditLearner& self, Reals promised) {
             expect_size(promised, self.arms(), "promised");
             return self.due(promised);
           })
      .def("observe_arrival",
           [](BanditLearner& self, std::uint64_t decided, std::uint64_t arm, bool was_due,
              Reals context, double reward) {
             expect_size(context, self.dimension(), "context");
             return self.observe_arrival(decided, arm, was_due, context, reward);
           })
      .def("takes_arrival",
           [](const BanditLearner& self, std::uint64_t decided, std::uint64_t arm, bool was_due) {
             return self.takes_arrival(self.enter(), decided, arm, was_due);
           })
      .def("recommend", &recommend_bandit, "contexts"_a, "chosen"_a, "allowed"_a = py::none())
      .def("run", &run_bandit)
      .def_static("run_keyed", &run_keyed_bandits)
      .def("replay", &replay_bandit)
      .def("nonprivate_violations", &BanditLearner::nonprivate_violations);
  bind_rounds(learner);
  py::class_<LinUcb, BanditLearner> linucb(m, "LinUcb");
  linucb.def(py::init(&make_linucb));
  bind_sum(linucb, &LinUcb::released);
  py::class_<ResidualPhases, BanditLearner> phases(m, "ResidualPhases");
  phases.def(py::init(&make_residual_phases)).def("clip", &ResidualPhases::clip);
  bind_sum(phases, &ResidualPhases::last_sums);
}

}  // namespace dpoco::bindings
