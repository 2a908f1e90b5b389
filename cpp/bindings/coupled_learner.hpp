#pragma once

#include "dpoco/mechanisms/switch_rule.hpp"
#include "loss_sums.hpp"
#include "record_learner.hpp"

namespace dpoco::bindings {

inline mechanisms::SwitchSettings switch_settings(const py::dict& settings) {
  const py::object cap = settings["max_switches"];  // None: no cap
  return {.horizon = settings["rounds"].cast<std::uint64_t>(),
          .block = settings["block"].cast<std::uint64_t>(),
          .forced = settings["forced_switch"].cast<double>(),
          .max_switches =
              cap.is_none() ? mechanisms::SwitchSettings::kNoCap : cap.cast<std::uint64_t>()};
}

// What `dpoco.oco._coupled` asks of both compiled learners, beside what every learner has.
template <class Learner>
void bind_coupled_learner(py::class_<Learner>& learner) {
  bind_record_learner(learner);
  learner
      .def(
          "observe_quadratic",
          [](Learner& self, std::uint64_t decided, const Array& matrix, const Array& vector) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(matrix, d * d, "matrix");
            expect_size(vector, d, "vector");
            self.observe_quadratic(decided, data(matrix), data(vector));
          },
          "decided"_a, "matrix"_a.noconvert(), "vector"_a.noconvert())
      .def(
          "observe_custom",
          [](Learner& self, std::uint64_t decided, const py::object& loss) {
            self.observe_staged(decided, [&](losses::LossSum& sum) { stage_object(sum, loss); });
          },
          "decided"_a, "loss"_a)
      .def_property_readonly("horizon", &Learner::horizon)
      .def_property_readonly("switches", &Learner::switches)
      .def("nonprivate_point", [](const Learner& self) {
        return read_only(self.intrinsic_dimension(),
                         [&](double* out) { self.nonprivate_point(out); });
      });
}

}  // namespace dpoco::bindings
