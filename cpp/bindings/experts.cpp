#include "dpoco/experts/expert_learner.hpp"

#include <vector>

#include "brief_runs.hpp"
#include "keyed_runs.hpp"
#include "rounds.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;

namespace {

using Choices = std::span<std::int64_t>;

// Releases the interpreter lock while the rounds are played.
void run_losses(ExpertLearner& self, Reals losses, RealsOut own_losses, Choices decisions) {
  expect_size(losses, own_losses.size() * self.experts(), "losses");
  expect_size(decisions, own_losses.size(), "decisions");
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is used below
  self.run(entered, losses, own_losses, decisions);
}

// The same for a short run. Creates its arrays: losses in [0, 1], decisions, the rounds after which
// the decision changed, and returns them with the number of rounds before. Returns None and plays
// nothing if `losses` is not a plain matrix, has more than `most` entries, or has more rows than
// rounds are left: Python handles or refuses these calls.
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
  Integers decisions(rounds);
  run_losses(self, entries(rows), writable(own), writable(decisions));
  const std::int64_t* played = decisions.data();
  std::vector<std::uint8_t> changed(static_cast<std::size_t>(rounds));
  for (std::size_t t = 1; t < changed.size(); ++t) changed[t - 1] = played[t] != played[t - 1];
  return py::make_tuple(std::move(own), std::move(decisions), rounds_with(changed), first);
}

// The same for many learners at once: learner i plays the rows that `keyed_rows` assigns to it.
void run_keyed_losses(const py::list& learners, const Integers& offsets, const Integers& rows,
                      Reals losses, RealsOut own_losses, Choices decisions, std::size_t workers) {
  const KeyedRows to = keyed_rows(learners, offsets, rows, own_losses.size());
  if (learners.empty()) return;
  const auto experts = common<ExpertLearner>(learners, &ExpertLearner::experts);
  expect_size(losses, own_losses.size() * experts, "losses");
  expect_size(decisions, own_losses.size(), "decisions");
  play_keyed<ExpertLearner>(learners, to, workers,
                            [=](ExpertLearner& learner, const Exclusive::Entry& entry,
                                std::size_t row, std::size_t count) {
                              learner.run(entry, losses.subspan(row * experts, count * experts),
                                          own_losses.subspan(row, count),
                                          decisions.subspan(row, count));
                            });
}

}  // namespace

// Registers the base class of all learners of experts, which are registered after it.
void register_experts(py::module_& m) {
  py::class_<ExpertLearner> learner(m, "ExpertLearner");
  learner.def_property_readonly("experts", &ExpertLearner::experts)
      .def("decision", &ExpertLearner::decision)
      .def("observe",
           [](ExpertLearner& self, std::uint64_t decided, Reals losses) {
             expect_size(losses, self.experts(), "losses");
             self.observe(decided, losses);
           })
      .def("run", &run_losses)
      .def("run_briefly", &run_losses_briefly)
      .def_static("run_keyed", &run_keyed_losses)
      .def("nonprivate_violations", &ExpertLearner::nonprivate_violations)
      .def("nonprivate_memory",
           [](const ExpertLearner& self) { return py::bytes(self.nonprivate_memory()); });
  bind_rounds(learner);
}

}  // namespace dpoco::bindings
