#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"
#include "rounds.hpp"

namespace dpoco::bindings {

using mechanisms::AboveThreshold;
using mechanisms::NoisyMax;

namespace {

using NoisyMaxAnswers = mechanisms::Answers<NoisyMax>;
using AboveThresholdAnswers = mechanisms::Answers<AboveThreshold>;

// Selections by scores, for which the caller promises the sensitivity.
std::unique_ptr<NoisyMaxAnswers> make_noisy_max(const py::object& mechanism,
                                                std::uint64_t candidates, std::uint64_t horizon,
                                                bool largest, const py::object& claim) {
  mechanisms::NoisyMaxSettings own{.candidates = candidates, .largest = largest};
  if (!read_nothing(mechanism, candidates == 1)) {
    const Selections selections = read_selections(mechanism, [](Fields& scores) {
      scores.expect_kind("promised_scores");
      for (const char* promise : {"sensitivity", "one_way"}) scores.skip(promise);
    });
    if (horizon > selections.rounds) throw std::invalid_argument("there are more selections");
    own.noise = selections.noise;
    own.scale = selections.scale;
  }
  return std::make_unique<NoisyMaxAnswers>(NoisyMax(own), horizon, read_claim(claim));
}

std::unique_ptr<AboveThresholdAnswers> make_above_threshold(const py::object& mechanism,
                                                            std::uint64_t horizon,
                                                            const py::object& claim) {
  AboveThreshold tests(read_threshold_tests(mechanism, 0.0));
  return std::make_unique<AboveThresholdAnswers>(std::move(tests), horizon, read_claim(claim));
}

}  // namespace

void register_selection(py::module_& m) {
  py::class_<NoisyMaxAnswers> noisy_max(m, "NoisyMax");
  noisy_max.def(py::init(&make_noisy_max)).def("select", [](NoisyMaxAnswers& self, Reals scores) {
    expect_size(scores, self.settings().candidates, "scores");
    return self.answer([scores](NoisyMax& law, random::Source& source, bool) {
      return static_cast<std::uint64_t>(law.select(scores, source));
    });
  });
  bind_rounds(noisy_max);

  py::class_<AboveThresholdAnswers> above(m, "AboveThreshold");
  above.def(py::init(&make_above_threshold))
      .def("test",
           [](AboveThresholdAnswers& self, double excess) {
             return self.answer([excess](AboveThreshold& law, random::Source& source, bool first) {
               return law.test_armed_once(excess, source, first);
             });
           })
      .def_property_readonly("alarms", [](const AboveThresholdAnswers& self) {
        return self.inspect([](const AboveThreshold& law, std::uint64_t tests) {
          return law.alarms_raised(tests);
        });
      });
  bind_rounds(above);
}

}  // namespace dpoco::bindings
