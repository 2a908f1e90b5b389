#include "dpoco/experts/expert_learner.hpp"

#include <vector>

#include "brief_runs.hpp"
#include "keyed_runs.hpp"
#include "rounds.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;

namespace {

// The interpreter lock is released while the rounds are played.
void run_losses(ExpertLearner& self, const Array& losses, Array& own_losses,
                py::array_t<std::int64_t>& decisions) {
  const auto rounds = static_cast<std::size_t>(own_losses.size());
  expect_size(losses, rounds * self.experts(), "losses");
  if (static_cast<std::size_t>(decisions.size()) != rounds) {
    throw std::invalid_argument("decisions has the wrong number of entries");
  }
  const std::span<const double> from = entries(losses);
  const std::span<double> own = writable(own_losses);
  const std::span<std::int64_t> choices(decisions.mutable_data(), rounds);
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is touched below
  self.run(entered, from, own, choices);
}

// The same for a short run, whose arrays are made here: losses in [0, 1], decisions, the rounds
// after which the decision changed, and the rounds before. Nothing is played and None returned if a
// loss needs a look, if there are more than `most`, or if rounds are missing to the horizon: that
// is Python's to check, or to refuse.
py::object run_losses_briefly(ExpertLearner& self, const py::object& losses, py::ssize_t most) {
  if (!is_plain(losses, 2)) return py::none();
  const auto rows = py::reinterpret_borrow<Array>(losses);
  const py::ssize_t rounds = rows.shape(0);
  const std::uint64_t first = self.round();
  if (static_cast<std::uint64_t>(rows.shape(1)) != self.experts() || rows.size() > most ||
      static_cast<std::uint64_t>(rounds) > self.horizon() - first) {
    return py::none();
  }
  Array own(rounds);
  py::array_t<std::int64_t> decisions(rounds);
  run_losses(self, rows, own, decisions);
  const std::int64_t* played = decisions.data();
  std::vector<std::uint8_t> changed(static_cast<std::size_t>(rounds));
  for (std::size_t t = 1; t < changed.size(); ++t) changed[t - 1] = played[t] != played[t - 1];
  return py::make_tuple(std::move(own), std::move(decisions), rounds_with(changed.data(), rounds),
                        first);
}

// The same for many learners at once: learner i plays the rows that `keyed_rows` says.
void run_keyed_losses(const py::list& learners, const Offsets& offsets, const Offsets& rows,
                      const Array& losses, Array& own_losses, py::array_t<std::int64_t>& decisions,
                      std::size_t workers) {
  const auto size = static_cast<std::size_t>(own_losses.size());
  const KeyedRows to = keyed_rows(learners, offsets, rows, size);
  if (learners.empty()) return;
  const auto experts = static_cast<std::size_t>(learners[0].cast<const ExpertLearner&>().experts());
  for (const py::handle learner : learners) {
    if (learner.cast<const ExpertLearner&>().experts() != experts) {
      throw std::invalid_argument("the learners differ in their number of experts");
    }
  }
  expect_size(losses, size * experts, "losses");
  if (static_cast<std::size_t>(decisions.size()) != size) {
    throw std::invalid_argument("decisions has the wrong number of entries");
  }
  const std::span<const double> from = entries(losses);
  const std::span<double> own = writable(own_losses);
  const std::span<std::int64_t> choices(decisions.mutable_data(), size);
  play_keyed<ExpertLearner>(learners, to, workers,
                            [=](ExpertLearner& learner, const Exclusive::Entry& entry,
                                std::size_t row, std::size_t count) {
                              learner.run(entry, from.subspan(row * experts, count * experts),
                                          own.subspan(row, count), choices.subspan(row, count));
                            });
}

}  // namespace

// The base of all learners of experts; they are registered after it.
void register_experts(py::module_& m) {
  py::class_<ExpertLearner> learner(m, "ExpertLearner");
  learner.def_property_readonly("experts", &ExpertLearner::experts)
      .def("decision", &ExpertLearner::decision)
      .def(
          "observe",
          [](ExpertLearner& self, std::uint64_t decided, const Array& losses) {
            expect_size(losses, self.experts(), "losses");
            self.observe(decided, entries(losses));
          },
          "decided"_a, "losses"_a.noconvert())
      .def("run", &run_losses, "losses"_a.noconvert(), "own_losses"_a.noconvert(),
           "decisions"_a.noconvert())
      .def("run_briefly", &run_losses_briefly, "losses"_a, "most"_a)
      .def_static("run_keyed", &run_keyed_losses, "learners"_a, "offsets"_a.noconvert(),
                  "rows"_a.noconvert(), "losses"_a.noconvert(), "own_losses"_a.noconvert(),
                  "decisions"_a.noconvert(), "workers"_a)
      .def("nonprivate_violations", &ExpertLearner::nonprivate_violations)
      .def("nonprivate_memory",
           [](const ExpertLearner& self) { return py::bytes(self.nonprivate_memory()); });
  bind_rounds(learner);
}

}  // namespace dpoco::bindings
