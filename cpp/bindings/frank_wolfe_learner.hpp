#pragma once

#include "common.hpp"
#include "record_learner.hpp"

namespace dpoco::bindings {

// What both online Frank-Wolfe learners offer beyond a record learner's own methods. `sum` returns
// the running sum of leaves: raw data.
template <class Learner, class Sum>
void bind_leaf_learner(py::class_<Learner>& learner, Sum sum) {
  learner
      .def("previous_decision",
           [](const Learner& self) {
             return read_only(self.dimension(), [&](double* out) { self.previous_decision(out); });
           })
      .def(
          "observe_gradients",
          [](Learner& self, std::uint64_t decided, const Array& at_decision,
             const Array& at_previous) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at_decision, d, "gradient at the decision");
            expect_size(at_previous, d, "gradient at the previous decision");
            self.observe_gradients(decided, data(at_decision), data(at_previous));
          },
          "decided"_a, "at_decision"_a.noconvert(), "at_previous"_a.noconvert())
      .def(
          "leaf",
          [](const Learner& self, const Array& at, const Array& previous, const Array& features,
             double label) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at, d, "at");
            expect_size(previous, d, "previous");
            expect_size(features, d, "features");
            Array out(self.dimension());
            self.leaf(data(at), data(previous), data(features), label, out.mutable_data());
            return out;
          },
          "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(), "label"_a)
      .def("nonprivate_sum", [sum](const Learner& self) {
        const std::vector<double>& values = sum(self);
        return read_only(self.dimension(),
                         [&](double* out) { std::copy(values.begin(), values.end(), out); });
      });
  bind_record_learner(learner);
}

}  // namespace dpoco::bindings
