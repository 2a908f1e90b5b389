#include "dpoco/experts/shift_detector.hpp"

#include <optional>
#include <vector>

#include "dpoco/core/statements.hpp"
#include "dpoco/experts/epoch_selector.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"
#include "shift_statistic_fields.hpp"

namespace dpoco::bindings {

using experts::EpochSelector;
using experts::ShiftDetector;

namespace {

using Expert = std::optional<std::uint64_t>;

// The draws of an instance: selections, and tests if there are any. A round belongs to one
// instance.
struct Instance {
  mechanisms::NoisyMaxSettings selection;
  std::optional<mechanisms::AboveThresholdSettings> test;
};

Instance read_instance(const py::object& mechanism, const experts::ExpertSettings& problem,
                       const char* lemma) {
  Instance own{.selection = {.candidates = problem.experts, .largest = false}, .test = {}};
  if (read_nothing(mechanism, problem.experts == 1 || problem.horizon == 1)) return own;
  std::vector<py::object> parts = read_parts(mechanism, "instances", lemma);
  if (Fields(parts.at(0), "a part").kind() == "parts") {
    parts = read_parts(parts.at(0), "together", "");
    own.test = read_threshold_tests(parts.at(1), 2.0);  // the sensitivity of the test statistic
  }
  const Selections selections = read_selections(parts.at(0), [](Fields& scores) {
    scores.expect_kind("loss_sums");
    refuse_smaller(scores.read<double>("width"), 1.0, "the width of losses");
  });
  if (parts.size() > (own.test ? 2U : 1U)) throw std::invalid_argument("there are more parts");
  own.selection.noise = selections.noise;
  own.selection.scale = selections.scale;
  return own;
}

experts::BiasAllowance bias_of(Fields from) {
  return read_whole(std::move(from), [](Fields& own) {
    return experts::BiasAllowance{.log_union = own.read<double>("log_union"),
                                  .noise = own.read<double>("noise"),
                                  .unselected = own.read<double>("unselected")};
  });
}

std::unique_ptr<EpochSelector> make_epoch_selector(const py::object& mechanism,
                                                   const py::object& problem, Expert first,
                                                   std::uint64_t longest, const py::object& claim) {
  const experts::ExpertSettings shared = read_experts(problem);
  const Instance drawn = read_instance(mechanism, shared, "epoch_selector");
  if (drawn.test) throw std::invalid_argument("there are no tests");
  const experts::EpochSelectorSettings own{
      .selection = drawn.selection, .first = first, .longest = longest};
  return std::make_unique<EpochSelector>(shared, own, read_claim(claim));
}

std::unique_ptr<ShiftDetector> make_shift_detector(const py::object& mechanism,
                                                   const py::object& problem, Expert first,
                                                   double threshold, const py::object& bias,
                                                   const py::object& statistic,
                                                   const py::object& claim) {
  const experts::ExpertSettings shared = read_experts(problem);
  const Instance drawn = read_instance(mechanism, shared, "shift_detector");
  const experts::ShiftDetectorSettings own{
      .selection = drawn.selection,
      .first = first,
      .bias = bias_of({bias, "an allowance for bias"}),
      .detects = drawn.test.has_value(),
      .test = drawn.test.value_or(mechanisms::AboveThresholdSettings{}),
      .threshold = threshold,
      .statistic = read_shift_statistic({statistic, "a statistic of shifts"})};
  return std::make_unique<ShiftDetector>(shared, own, read_claim(claim));
}

}  // namespace

void register_shift_detector(py::module_& m) {
  py::class_<EpochSelector, experts::ExpertLearner>(m, "EpochSelector")
      .def(py::init(&make_epoch_selector))
      .def("nonprivate_sums",
           [](const EpochSelector& self) { return make_array(self.nonprivate_sums()); });

  py::class_<ShiftDetector, experts::ExpertLearner>(m, "ShiftDetector")
      .def(py::init(&make_shift_detector))
      .def("alarms", &ShiftDetector::alarms)
      .def("nonprivate_sums",
           [](const ShiftDetector& self) { return make_array(self.nonprivate_sums()); })
      .def("nonprivate_rows",
           [](const ShiftDetector& self) { return make_array(self.nonprivate_rows()); });
}

}  // namespace dpoco::bindings
