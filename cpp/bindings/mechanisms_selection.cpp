#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "registrars.hpp"
#include "selection_settings.hpp"

namespace dpoco::bindings {

using mechanisms::AboveThreshold;
using mechanisms::NoisyMax;

namespace {

using NoisyMaxAnswers = mechanisms::Answers<NoisyMax>;
using AboveThresholdAnswers = mechanisms::Answers<AboveThreshold>;

std::unique_ptr<random::Source> source_of(const py::dict& settings) {
  return make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>());
}

// The threshold is armed when the first question comes, and once: the proof lets one threshold
// noise serve all alarms.
bool test(AboveThreshold& law, double excess, random::Source& source, bool first) {
  if (first) {
    law.arm(source);
  } else if (!law.armed()) {
    throw HorizonExceeded("the declared number of alarms is used up");
  }
  return law.test(excess, source);
}

template <class Mechanism>
py::class_<Mechanism>& add_common(py::class_<Mechanism>& c) {
  return c.def_property_readonly("round", &Mechanism::round)
      .def("check_process", [](const Mechanism& self) { self.source().check_process(); })
      .def("adopt", [](Mechanism& self) { self.source().adopt(); })
      .def("state", &state_of<Mechanism>)
      .def("restore", &restore<Mechanism>, "state"_a);
}

}  // namespace

void register_selection(py::module_& m) {
  py::class_<NoisyMaxAnswers> noisy_max(m, "NoisyMax");
  noisy_max.def(py::init([](const py::dict& settings) {
                  return NoisyMaxAnswers(NoisyMax(noisy_max_settings(settings)),
                                         settings["horizon"].cast<std::uint64_t>(),
                                         source_of(settings));
                }),
                "settings"_a);
  noisy_max.def(
      "select",
      [](NoisyMaxAnswers& self, const Array& scores) {
        expect_size(scores, self.law().settings().candidates, "scores");
        const double* from = data(scores);
        return self.answer([from](NoisyMax& law, random::Source& source) {
          return static_cast<std::uint64_t>(law.select(from, source));
        });
      },
      "scores"_a.noconvert());
  add_common(noisy_max);

  py::class_<AboveThresholdAnswers> above(m, "AboveThreshold");
  above.def(py::init([](const py::dict& settings) {
              return AboveThresholdAnswers(AboveThreshold(above_threshold_settings(settings)),
                                           settings["horizon"].cast<std::uint64_t>(),
                                           source_of(settings));
            }),
            "settings"_a);
  above.def(
      "test",
      [](AboveThresholdAnswers& self, double excess) {
        const bool first = self.round() == 0;
        return self.answer([excess, first](AboveThreshold& law, random::Source& source) {
          return test(law, excess, source, first);
        });
      },
      "excess"_a);
  above.def_property_readonly("alarms", [](const AboveThresholdAnswers& self) {
    if (self.round() == 0) return std::uint64_t{0};
    return self.law().settings().alarms - self.law().alarms_left();
  });
  add_common(above);
}

}  // namespace dpoco::bindings
