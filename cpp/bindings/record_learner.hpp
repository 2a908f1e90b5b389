#pragma once

#include <vector>

#include "common.hpp"
#include "dpoco/random/source.hpp"
#include "keyed_runs.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

// The random numbers of a learner: its own, or those of its continual sum.
template <class Learner>
auto& source_of(Learner& learner) {
  if constexpr (requires { learner.source(); }) {
    return learner.source();
  } else {
    return learner.sum().source();
  }
}

// Plays the rows of `features`; labels and decisions may be None. The interpreter lock is released.
template <class Learner>
void run_records(Learner& self, const Array& features, const py::object& labels, Array& losses,
                 const py::object& decisions, py::array_t<std::uint8_t>& changed) {
  const auto d = static_cast<std::size_t>(self.dimension());
  const auto rounds = static_cast<std::size_t>(losses.size());
  expect_size(features, rounds * d, "features");
  const double* label_data = nullptr;
  if (!labels.is_none()) {
    const auto array = labels.cast<Array>();
    expect_size(array, rounds, "labels");
    label_data = data(array);
  }
  double* decision_data = nullptr;
  if (!decisions.is_none()) {
    auto array = decisions.cast<Array>();
    expect_size(array, rounds * d, "decisions");
    decision_data = array.mutable_data();
  }
  if (static_cast<std::size_t>(changed.size()) != rounds) {
    throw std::invalid_argument("changed has the wrong number of entries");
  }
  const double* feature_data = data(features);
  double* loss_data = losses.mutable_data();
  std::uint8_t* changed_data = changed.mutable_data();
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is touched below
  self.run(entered, feature_data, label_data, rounds, loss_data, decision_data, changed_data);
}

// The same for many learners at once: learner i plays the rows that `keyed_rows` says.
template <class Learner>
void run_keyed_records(const py::list& learners, const Offsets& offsets, const Offsets& rows,
                       const Array& features, const py::object& labels, Array& losses,
                       Array& decisions, std::size_t workers) {
  const auto size = static_cast<std::size_t>(losses.size());
  const KeyedRows to = keyed_rows(learners, offsets, rows, size);
  if (learners.empty()) return;
  const auto d = static_cast<std::size_t>(learners[0].cast<const Learner&>().dimension());
  for (const py::handle learner : learners) {
    if (static_cast<std::size_t>(learner.cast<const Learner&>().dimension()) != d) {
      throw std::invalid_argument("the learners differ in dimension");
    }
  }
  expect_size(features, size * d, "features");
  expect_size(decisions, size * d, "decisions");
  const double* label_data = nullptr;
  if (!labels.is_none()) {
    const auto array = labels.cast<Array>();
    expect_size(array, size, "labels");
    label_data = data(array);
  }
  const double* feature_data = data(features);
  double* loss_data = losses.mutable_data();
  double* decision_data = decisions.mutable_data();
  play_keyed<Learner>(
      learners, to, workers,
      [=](Learner& learner, const Exclusive::Entry& entry, std::size_t row, std::size_t count) {
        learner.run(entry, feature_data + row * d, label_data ? label_data + row : nullptr, count,
                    loss_data + row, decision_data + row * d, nullptr);
      });
}

// What `dpoco._record_learner` and `dpoco._state` ask of every compiled learner.
template <class Learner>
void bind_record_learner(py::class_<Learner>& learner) {
  learner
      .def("decision",
           [](const Learner& self) {
             return read_only(self.dimension(), [&](double* out) { self.decision(out); });
           })
      .def(
          "observe",
          [](Learner& self, std::uint64_t decided, const Array& features, double label) {
            expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
            self.observe(decided, data(features), label);
          },
          "decided"_a, "features"_a.noconvert(), "label"_a)
      .def(
          "observe_gradient",
          [](Learner& self, std::uint64_t decided, const Array& gradient) {
            expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
            self.observe_gradient(decided, data(gradient));
          },
          "decided"_a, "gradient"_a.noconvert())
      .def("run", &run_records<Learner>, "features"_a.noconvert(), "labels"_a,
           "losses"_a.noconvert(), "decisions"_a, "changed"_a.noconvert())
      .def_static("run_keyed", &run_keyed_records<Learner>, "learners"_a, "offsets"_a.noconvert(),
                  "rows"_a.noconvert(), "features"_a.noconvert(), "labels"_a,
                  "losses"_a.noconvert(), "decisions"_a.noconvert(), "workers"_a)
      .def_property_readonly("round", &Learner::round)
      .def("variates_drawn",
           [](const Learner& self) {
             std::vector<std::uint64_t> positions;
             for (unsigned kind = 0; kind < random::kVariates; ++kind) {
               positions.push_back(source_of(self).position(static_cast<random::Variate>(kind)));
             }
             return positions;
           })
      .def("check_process", [](const Learner& self) { source_of(self).check_process(); })
      .def("adopt", [](Learner& self) { source_of(self).adopt(); })
      .def(
          "rekey",
          [](Learner& self, const py::bytes& key, std::uint64_t stream) {
            source_of(self).rekey(key_from(key), stream);
          },
          "key"_a, "stream"_a)
      .def("state", &state_of<Learner>)
      .def("restore", &restore<Learner>, "state"_a);
}

}  // namespace dpoco::bindings
