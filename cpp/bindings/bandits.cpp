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
using Arms = py::array_t<std::int64_t, py::array::c_style>;

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
    summand.skip("rounding");  // a factor of the proof, for products in doubles
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
  // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
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

void expect_arms(const Arms& array, std::size_t size, const char* name) {
  if (static_cast<std::size_t>(array.size()) != size) {
    throw std::invalid_argument(std::string(name) + " has the wrong number of entries");
  }
}

// The interpreter lock is released while the rounds are played.
void run_bandit(BanditLearner& self, const Array& contexts, const Array& rewards, Arms& chosen,
                Array& own_rewards) {
  const auto rounds = static_cast<std::size_t>(own_rewards.size());
  expect_size(contexts, rounds * self.dimension(), "contexts");
  expect_size(rewards, rounds * self.arms(), "rewards");
  expect_arms(chosen, rounds, "chosen");
  const double* context_data = data(contexts);
  const double* reward_data = data(rewards);
  std::int64_t* played = chosen.mutable_data();
  double* own = own_rewards.mutable_data();
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is touched below
  self.run(entered, context_data, reward_data, rounds, played, own);
}

// The same for many bandits at once: bandit i plays the rows that `keyed_rows` says.
void run_keyed_bandits(const py::list& learners, const Offsets& offsets, const Offsets& rows,
                       const Array& contexts, const Array& rewards, Arms& chosen,
                       Array& own_rewards, std::size_t workers) {
  const auto size = static_cast<std::size_t>(own_rewards.size());
  const KeyedRows to = keyed_rows(learners, offsets, rows, size);
  if (learners.empty()) return;
  const std::size_t d = learners[0].cast<const BanditLearner&>().dimension();
  const auto arms = static_cast<std::size_t>(learners[0].cast<const BanditLearner&>().arms());
  for (const py::handle learner : learners) {
    const auto& bandit = learner.cast<const BanditLearner&>();
    if (bandit.dimension() != d || bandit.arms() != arms) {
      throw std::invalid_argument("the bandits differ in dimension or arms");
    }
  }
  expect_size(contexts, size * d, "contexts");
  expect_size(rewards, size * arms, "rewards");
  expect_arms(chosen, size, "chosen");
  const double* context_data = data(contexts);
  const double* reward_data = data(rewards);
  std::int64_t* played = chosen.mutable_data();
  double* own = own_rewards.mutable_data();
  play_keyed<BanditLearner>(learners, to, workers,
                            [=](BanditLearner& learner, const Exclusive::Entry& entry,
                                std::size_t row, std::size_t count) {
                              learner.run(entry, context_data + row * d, reward_data + row * arms,
                                          count, played + row, own + row);
                            });
}

std::uint64_t replay_bandit(BanditLearner& self, const Array& contexts, const Arms& actions,
                            const Array& rewards, Arms& chosen) {
  const auto events = static_cast<std::size_t>(rewards.size());
  expect_size(contexts, events * self.dimension(), "contexts");
  expect_arms(actions, events, "actions");
  expect_arms(chosen, events, "chosen");
  const double* context_data = data(contexts);
  const std::int64_t* action_data = actions.data();
  const double* reward_data = data(rewards);
  std::int64_t* played = chosen.mutable_data();
  const auto entered = self.enter();
  const py::gil_scoped_release nogil;
  return self.replay(entered, context_data, action_data, reward_data, events, played);
}

using Mask = py::array_t<bool, py::array::c_style>;

void recommend_bandit(BanditLearner& self, const Array& contexts, Arms& chosen,
                      const std::optional<Mask>& allowed) {
  const auto count = static_cast<std::size_t>(chosen.size());
  expect_size(contexts, count * self.dimension(), "contexts");
  if (allowed && static_cast<std::uint64_t>(allowed->size()) != self.arms()) {
    throw std::invalid_argument("allowed has the wrong number of entries");
  }
  // Bytes, since a bool of the caller's memory need not be 0 or 1.
  const void* mask = allowed ? static_cast<const py::array&>(*allowed).data() : nullptr;
  const double* context_data = data(contexts);
  std::int64_t* played = chosen.mutable_data();
  const auto entered = self.enter();
  const py::gil_scoped_release nogil;
  self.recommend(entered, context_data, count, played, static_cast<const std::uint8_t*>(mask));
}

}  // namespace

void register_bandits(py::module_& m) {
  py::class_<BanditLearner> learner(m, "BanditLearner");
  learner.def_property_readonly("arms", &BanditLearner::arms)
      .def(
          "decide",
          [](BanditLearner& self, std::uint64_t decided, const Array& context) {
            expect_size(context, self.dimension(), "context");
            return self.decide(decided, data(context));
          },
          "decided"_a, "context"_a.noconvert())
      .def("observe", &BanditLearner::observe, "decided"_a, "reward"_a)
      .def(
          "due",
          [](const BanditLearner& self, const Array& promised) {
            expect_size(promised, self.arms(), "promised");
            return self.due(data(promised));
          },
          "promised"_a.noconvert())
      .def(
          "observe_arrival",
          [](BanditLearner& self, std::uint64_t decided, std::uint64_t arm, bool was_due,
             const Array& context, double reward) {
            expect_size(context, self.dimension(), "context");
            return self.observe_arrival(decided, arm, was_due, data(context), reward);
          },
          "decided"_a, "arm"_a, "was_due"_a, "context"_a.noconvert(), "reward"_a)
      .def(
          "takes_arrival",
          [](const BanditLearner& self, std::uint64_t decided, std::uint64_t arm, bool was_due) {
            return self.takes_arrival(self.enter(), decided, arm, was_due);
          },
          "decided"_a, "arm"_a, "was_due"_a)
      .def("recommend", &recommend_bandit, "contexts"_a.noconvert(), "chosen"_a.noconvert(),
           "allowed"_a = py::none())
      .def("run", &run_bandit, "contexts"_a.noconvert(), "rewards"_a.noconvert(),
           "chosen"_a.noconvert(), "own_rewards"_a.noconvert())
      .def_static("run_keyed", &run_keyed_bandits, "learners"_a, "offsets"_a.noconvert(),
                  "rows"_a.noconvert(), "contexts"_a.noconvert(), "rewards"_a.noconvert(),
                  "chosen"_a.noconvert(), "own_rewards"_a.noconvert(), "workers"_a)
      .def("replay", &replay_bandit, "contexts"_a.noconvert(), "actions"_a.noconvert(),
           "rewards"_a.noconvert(), "chosen"_a.noconvert())
      .def("nonprivate_violations", &BanditLearner::nonprivate_violations);
  bind_rounds(learner);
  py::class_<LinUcb, BanditLearner>(m, "LinUcb")
      .def(py::init(&make_linucb), "mechanism"_a, "tuning"_a, "claim"_a)
      .def("coefficients",
           [](const LinUcb& self) {
             const auto entries = static_cast<std::size_t>(self.arms()) * self.dimension();
             return read_only(static_cast<py::ssize_t>(entries),
                              [&](std::span<double> out) { self.coefficients(out.data()); });
           })
      .def("released",
           [](const LinUcb& self) {
             return read_only(self.sum().dimension(),
                              [&](std::span<double> out) { self.released(out.data()); });
           })
      .def(
          "leaf",
          [](const LinUcb& self, std::uint64_t arm, const Array& context, double reward) {
            expect_size(context, self.dimension(), "context");
            if (arm >= self.arms()) throw std::invalid_argument("arm does not exist");
            Array out(self.sum().dimension());
            self.leaf(arm, data(context), reward, out.mutable_data());
            return out;
          },
          "arm"_a, "context"_a.noconvert(), "reward"_a)
      .def("nonprivate_sum", [](const LinUcb& self) {
        const auto entered = self.enter();
        const std::vector<double>& sum = self.sum().nonprivate_sum();
        return read_only(self.sum().dimension(),
                         [&](std::span<double> out) { std::ranges::copy(sum, out.begin()); });
      });
  py::class_<ResidualPhases, BanditLearner>(m, "ResidualPhases")
      .def(py::init(&make_residual_phases), "mechanism"_a, "tuning"_a, "claim"_a)
      .def("coefficients",
           [](const ResidualPhases& self) {
             const auto entries = static_cast<std::size_t>(self.arms()) * self.dimension();
             return read_only(static_cast<py::ssize_t>(entries),
                              [&](std::span<double> out) { self.coefficients(out); });
           })
      .def("released",
           [](const ResidualPhases& self) {
             return read_only(self.sum().dimension(),
                              [&](std::span<double> out) { self.last_sums(out); });
           })
      .def("clip", &ResidualPhases::clip)
      .def(
          "leaf",
          [](const ResidualPhases& self, std::uint64_t arm, const Array& context, double reward) {
            expect_size(context, self.dimension(), "context");
            if (arm >= self.arms()) throw std::invalid_argument("arm does not exist");
            Array out(self.sum().dimension());
            self.leaf(arm, {data(context), self.dimension()}, reward,
                      {out.mutable_data(), static_cast<std::size_t>(out.size())});
            return out;
          },
          "arm"_a, "context"_a.noconvert(), "reward"_a)
      .def("nonprivate_sum",
           [](const ResidualPhases& self) {
             const auto entered = self.enter();
             const std::vector<double>& sum = self.sum().nonprivate_sum();
             return read_only(self.sum().dimension(),
                              [&](std::span<double> out) { std::ranges::copy(sum, out.begin()); });
           })
      .def_static("public_draws", [](std::size_t dimension) {
        const auto draws = ResidualPhases::public_draws(dimension);
        return read_only(static_cast<py::ssize_t>(draws->size()), [&](std::span<double> out) {
          std::ranges::copy(view(*draws), out.begin());
        });
      });
}

}  // namespace dpoco::bindings
