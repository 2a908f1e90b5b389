#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "registrars.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using mechanisms::AboveThreshold;
using mechanisms::NoisyMax;

namespace {

using NoisyMaxAnswers = mechanisms::Answers<NoisyMax>;
using AboveThresholdAnswers = mechanisms::Answers<AboveThreshold>;

template <class Law>
std::unique_ptr<mechanisms::Answers<Law>> answers_of(Law law, Fields& own) {
  const auto horizon = own.read<std::uint64_t>("horizon");
  return std::make_unique<mechanisms::Answers<Law>>(std::move(law), horizon, read_source(own));
}

}  // namespace

void register_selection(py::module_& m) {
  py::class_<NoisyMaxAnswers> noisy_max(m, "NoisyMax");
  noisy_max.def(py::init([](const py::object& settings) {
                  return read_whole({settings, "a noisy max"}, [](Fields& own) {
                    return answers_of(NoisyMax(read_noisy_max(own)), own);
                  });
                }),
                "settings"_a);
  noisy_max.def(
      "select",
      [](NoisyMaxAnswers& self, const Array& scores) {
        expect_size(scores, self.settings().candidates, "scores");
        const double* from = data(scores);
        return self.answer([from](NoisyMax& law, random::Source& source, bool) {
          return static_cast<std::uint64_t>(law.select(from, source));
        });
      },
      "scores"_a.noconvert());
  bind_rounds(noisy_max);

  py::class_<AboveThresholdAnswers> above(m, "AboveThreshold");
  above.def(py::init([](const py::object& settings) {
              return read_whole({settings, "a threshold test"}, [](Fields& own) {
                return answers_of(AboveThreshold(read_above_threshold(own)), own);
              });
            }),
            "settings"_a);
  above.def(
      "test",
      [](AboveThresholdAnswers& self, double excess) {
        return self.answer([excess](AboveThreshold& law, random::Source& source, bool first) {
          return law.test_armed_once(excess, source, first);
        });
      },
      "excess"_a);
  above.def_property_readonly("alarms", [](const AboveThresholdAnswers& self) {
    return self.inspect(
        [](const AboveThreshold& law, std::uint64_t tests) { return law.alarms_raised(tests); });
  });
  bind_rounds(above);
}

}  // namespace dpoco::bindings
