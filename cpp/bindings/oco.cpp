#include "dpoco/oco/coupled_learner.hpp"

#include <optional>
#include <vector>

#include "brief_runs.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "keyed_runs.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::CoupledLearner;
using oco::RecordLearner;

namespace {

using Flags = std::span<std::uint8_t>;

// Plays the rows of `features`. Labels and decisions may be None. Releases the interpreter lock.
void run_records(RecordLearner& self, Reals features, const std::optional<Reals>& labels,
                 RealsOut losses, const std::optional<RealsOut>& decisions, Flags changed) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(features, losses.size() * d, "features");
  if (labels) expect_size(*labels, losses.size(), "labels");
  if (decisions) expect_size(*decisions, losses.size() * d, "decisions");
  expect_size(changed, losses.size(), "changed");
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is used below
  self.run(entered, features, labels.value_or(Reals()), losses, decisions.value_or(RealsOut()),
           changed);
}

// The same for a short run. Creates its arrays: losses, decisions (None unless they are kept) and
// the rounds after which the decision changed, and returns them with the number of rounds before.
// Returns None and plays nothing if an array is not plain, if `features` has more than `most`
// entries, or if it has more rows than rounds are left: Python handles or refuses these calls.
py::object run_records_briefly(RecordLearner& self, const py::object& features,
                               const py::object& labels, bool labelled, bool keeps,
                               py::ssize_t most) {
  const bool readable = labelled ? is_plain(labels, 1) : labels.is_none();
  if (!readable || !is_plain(features, 2)) return py::none();
  const auto records = py::reinterpret_borrow<Array>(features);
  const py::ssize_t rounds = records.shape(0);
  const std::uint64_t first = self.round();
  if (records.shape(1) != static_cast<py::ssize_t>(self.dimension()) || records.size() > most ||
      (labelled && py::len(labels) != static_cast<std::size_t>(rounds)) ||
      static_cast<std::uint64_t>(rounds) > self.horizon() - first) {
    return py::none();
  }
  Array losses(rounds);
  std::optional<Array> decisions;
  if (keeps) decisions.emplace(std::vector<py::ssize_t>{rounds, records.shape(1)});
  std::vector<std::uint8_t> changed(static_cast<std::size_t>(rounds));
  const auto given = labelled ? labels.cast<std::optional<Reals>>() : std::nullopt;
  run_records(self, entries(records), given, writable(losses),
              keeps ? std::optional(writable(*decisions)) : std::nullopt, changed);
  freeze(losses);
  if (keeps) freeze(*decisions);
  return py::make_tuple(std::move(losses), std::move(decisions), rounds_with(changed), first);
}

// The same for many learners at once: learner i plays the rows that `keyed_rows` assigns to it.
void run_keyed_records(const py::list& learners, const Integers& offsets, const Integers& rows,
                       Reals features, const std::optional<Reals>& labels, RealsOut losses,
                       RealsOut decisions, std::size_t workers) {
  const KeyedRows to = keyed_rows(learners, offsets, rows, losses.size());
  if (learners.empty()) return;
  const auto d = common<RecordLearner>(learners, &RecordLearner::dimension);
  expect_size(features, losses.size() * d, "features");
  expect_size(decisions, losses.size() * d, "decisions");
  if (labels) expect_size(*labels, losses.size(), "labels");
  play_keyed<RecordLearner>(learners, to, workers,
                            [=](RecordLearner& learner, const Exclusive::Entry& entry,
                                std::size_t row, std::size_t count) {
                              learner.run(entry, features.subspan(row * d, count * d),
                                          labels ? labels->subspan(row, count) : Reals(),
                                          losses.subspan(row, count),
                                          decisions.subspan(row * d, count * d), {});
                            });
}

}  // namespace

// Registers the bases of the learners whose decisions are vectors, before these learners.
void register_record_learners(py::module_& m) {
  py::class_<RecordLearner> learner(m, "RecordLearner");
  learner
      .def("decision",
           array_getter<const RecordLearner>(&RecordLearner::dimension, &RecordLearner::decision))
      .def("observe",
           [](RecordLearner& self, std::uint64_t decided, Reals features, double label) {
             expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
             self.observe(decided, features, label);
           })
      .def("observe_gradient",
           [](RecordLearner& self, std::uint64_t decided, Reals gradient) {
             expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
             self.observe_gradient(decided, gradient);
           })
      .def("run", &run_records)
      .def("run_briefly", &run_records_briefly)
      .def_static("run_keyed", &run_keyed_records);
  bind_rounds(learner);

  py::class_<CoupledLearner, RecordLearner>(m, "CoupledLearner")
      .def("observe_quadratic",
           [](CoupledLearner& self, std::uint64_t decided, Reals matrix, Reals vector) {
             const auto d = static_cast<std::size_t>(self.dimension());
             expect_size(matrix, d * d, "matrix");
             expect_size(vector, d, "vector");
             self.observe_quadratic(decided, matrix, vector);
           })
      .def("observe_custom",
           [](CoupledLearner& self, std::uint64_t decided, const py::object& loss) {
             self.observe_staged(decided, [&](losses::LossSum& sum) { stage_object(sum, loss); });
           })
      .def_property_readonly("horizon", &CoupledLearner::horizon)
      .def_property_readonly("switches", &CoupledLearner::switches)
      .def("nonprivate_point",
           array_getter<const CoupledLearner>(&CoupledLearner::intrinsic_dimension,
                                              &CoupledLearner::nonprivate_point));
}

}  // namespace dpoco::bindings
