#include "dpoco/oco/coupled_learner.hpp"

#include "brief_runs.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "keyed_runs.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::CoupledLearner;
using oco::RecordLearner;

namespace {

// Plays the rows of `features`; labels and decisions may be None. The interpreter lock is released.
void run_records(RecordLearner& self, const Array& features, const py::object& labels,
                 Array& losses, const py::object& decisions, py::array_t<std::uint8_t>& changed) {
  const auto d = static_cast<std::size_t>(self.dimension());
  const auto rounds = static_cast<std::size_t>(losses.size());
  expect_size(features, rounds * d, "features");
  std::span<const double> label_data;
  if (!labels.is_none()) {
    const auto array = labels.cast<Array>();
    expect_size(array, rounds, "labels");
    label_data = entries(array);
  }
  std::span<double> decision_data;
  if (!decisions.is_none()) {
    auto array = decisions.cast<Array>();
    expect_size(array, rounds * d, "decisions");
    decision_data = writable(array);
  }
  if (static_cast<std::size_t>(changed.size()) != rounds) {
    throw std::invalid_argument("changed has the wrong number of entries");
  }
  const std::span<const double> feature_data = entries(features);
  const std::span<double> loss_data = writable(losses);
  const std::span<std::uint8_t> changed_data(changed.mutable_data(), rounds);
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is touched below
  self.run(entered, feature_data, label_data, loss_data, decision_data, changed_data);
}

// The same for a short run, whose arrays are made here: losses, decisions (None unless they are
// kept) and the rounds after which the decision changed; and the rounds before. Nothing is played
// and None returned if a record or label needs a look, if there are more than `most` entries, or if
// rounds are missing to the horizon: that is Python's to check, or to refuse.
py::object run_records_briefly(RecordLearner& self, const py::object& features,
                               const py::object& labels, bool labelled, bool keeps,
                               py::ssize_t most) {
  if (!is_plain(features, 2) || !(labelled ? is_plain(labels, 1) : labels.is_none())) {
    return py::none();
  }
  const auto records = py::reinterpret_borrow<Array>(features);
  const py::ssize_t rounds = records.shape(0);
  const std::uint64_t first = self.round();
  if (records.shape(1) != static_cast<py::ssize_t>(self.dimension()) || records.size() > most ||
      (labelled && py::len(labels) != static_cast<std::size_t>(rounds)) ||
      static_cast<std::uint64_t>(rounds) > self.horizon() - first) {
    return py::none();
  }
  Array losses(rounds);
  py::object decisions = py::none();
  if (keeps) decisions = Array({rounds, records.shape(1)});
  py::array_t<std::uint8_t> changed(rounds);
  run_records(self, records, labels, losses, decisions, changed);
  py::object switches = rounds_with(changed.data(), rounds);
  freeze(losses);
  if (keeps) freeze(decisions);
  return py::make_tuple(std::move(losses), std::move(decisions), std::move(switches), first);
}

// The same for many learners at once: learner i plays the rows that `keyed_rows` says.
void run_keyed_records(const py::list& learners, const Offsets& offsets, const Offsets& rows,
                       const Array& features, const py::object& labels, Array& losses,
                       Array& decisions, std::size_t workers) {
  const auto size = static_cast<std::size_t>(losses.size());
  const KeyedRows to = keyed_rows(learners, offsets, rows, size);
  if (learners.empty()) return;
  const auto d = static_cast<std::size_t>(learners[0].cast<const RecordLearner&>().dimension());
  for (const py::handle learner : learners) {
    if (static_cast<std::size_t>(learner.cast<const RecordLearner&>().dimension()) != d) {
      throw std::invalid_argument("the learners differ in dimension");
    }
  }
  expect_size(features, size * d, "features");
  expect_size(decisions, size * d, "decisions");
  std::span<const double> label_data;
  if (!labels.is_none()) {
    const auto array = labels.cast<Array>();
    expect_size(array, size, "labels");
    label_data = entries(array);
  }
  const std::span<const double> feature_data = entries(features);
  const std::span<double> loss_data = writable(losses);
  const std::span<double> decision_data = writable(decisions);
  play_keyed<RecordLearner>(
      learners, to, workers,
      [=](RecordLearner& learner, const Exclusive::Entry& entry, std::size_t row,
          std::size_t count) {
        learner.run(entry, feature_data.subspan(row * d, count * d),
                    label_data.empty() ? label_data : label_data.subspan(row, count),
                    loss_data.subspan(row, count), decision_data.subspan(row * d, count * d), {});
      });
}

}  // namespace

// The bases of the learners whose decisions are vectors; those are registered after them.
void register_record_learners(py::module_& m) {
  py::class_<RecordLearner> learner(m, "RecordLearner");
  learner
      .def("decision",
           [](const RecordLearner& self) {
             return read_only(self.dimension(), [&](std::span<double> out) { self.decision(out); });
           })
      .def(
          "observe",
          [](RecordLearner& self, std::uint64_t decided, const Array& features, double label) {
            expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
            self.observe(decided, entries(features), label);
          },
          "decided"_a, "features"_a.noconvert(), "label"_a)
      .def(
          "observe_gradient",
          [](RecordLearner& self, std::uint64_t decided, const Array& gradient) {
            expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
            self.observe_gradient(decided, entries(gradient));
          },
          "decided"_a, "gradient"_a.noconvert())
      .def("run", &run_records, "features"_a.noconvert(), "labels"_a, "losses"_a.noconvert(),
           "decisions"_a, "changed"_a.noconvert())
      .def("run_briefly", &run_records_briefly, "features"_a, "labels"_a, "labelled"_a, "keeps"_a,
           "most"_a)
      .def_static("run_keyed", &run_keyed_records, "learners"_a, "offsets"_a.noconvert(),
                  "rows"_a.noconvert(), "features"_a.noconvert(), "labels"_a,
                  "losses"_a.noconvert(), "decisions"_a.noconvert(), "workers"_a);
  bind_rounds(learner);

  py::class_<CoupledLearner, RecordLearner>(m, "CoupledLearner")
      .def(
          "observe_quadratic",
          [](CoupledLearner& self, std::uint64_t decided, const Array& matrix,
             const Array& vector) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(matrix, d * d, "matrix");
            expect_size(vector, d, "vector");
            self.observe_quadratic(decided, entries(matrix), entries(vector));
          },
          "decided"_a, "matrix"_a.noconvert(), "vector"_a.noconvert())
      .def(
          "observe_custom",
          [](CoupledLearner& self, std::uint64_t decided, const py::object& loss) {
            self.observe_staged(decided, [&](losses::LossSum& sum) { stage_object(sum, loss); });
          },
          "decided"_a, "loss"_a)
      .def_property_readonly("horizon", &CoupledLearner::horizon)
      .def_property_readonly("switches", &CoupledLearner::switches)
      .def("nonprivate_point", [](const CoupledLearner& self) {
        return read_only(self.intrinsic_dimension(),
                         [&](std::span<double> out) { self.nonprivate_point(out); });
      });
}

}  // namespace dpoco::bindings
