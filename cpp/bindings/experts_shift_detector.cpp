#include "dpoco/experts/shift_detector.hpp"

#include "dpoco/experts/epoch_selector.hpp"
#include "dpoco/experts/shift_statistic.hpp"
#include "expert_learner.hpp"
#include "selection_settings.hpp"

namespace dpoco::bindings {

using experts::EpochSelector;
using experts::ShiftDetector;
using experts::ShiftStatistic;

namespace {

std::optional<std::uint64_t> first_of(const py::dict& settings) {
  return settings["first"].cast<std::optional<std::uint64_t>>();
}

experts::ShiftStatisticSettings statistic_settings(const py::dict& settings) {
  const auto name = settings["windows"].cast<std::string>();
  experts::Windows windows{};
  if (name == "tangent") {
    windows = experts::Windows::tangent;
  } else if (name == "dyadic") {
    windows = experts::Windows::dyadic;
  } else if (name == "naive") {
    windows = experts::Windows::naive;
  } else {
    throw std::invalid_argument("unknown windows of a statistic");
  }
  return {.experts = settings["experts"].cast<std::uint64_t>(),
          .windows = windows,
          .offsets = settings["offsets"].cast<std::vector<double>>(),
          .slopes = settings["slopes"].cast<std::vector<double>>(),
          .reach = settings["reach"].cast<std::uint64_t>()};
}

experts::ShiftDetectorSettings detector_settings(const py::dict& settings) {
  const py::dict bias = settings["bias"];
  return {.selection = noisy_max_settings(settings["selection"]),
          .first = first_of(settings),
          .bias = {.log_union = bias["log_union"].cast<double>(),
                   .noise = bias["noise"].cast<double>(),
                   .unselected = bias["unselected"].cast<double>()},
          .detects = settings["detects"].cast<bool>(),
          .test = above_threshold_settings(settings["test"]),
          .threshold = settings["threshold"].cast<double>(),
          .statistic = statistic_settings(settings["statistic"])};
}

}  // namespace

void register_shift_detector(py::module_& m) {
  py::class_<EpochSelector, experts::ExpertLearner>(m, "EpochSelector")
      .def(py::init([](const py::dict& settings) {
             const experts::EpochSelectorSettings own{
                 .selection = noisy_max_settings(settings["selection"]),
                 .first = first_of(settings)};
             return std::make_unique<EpochSelector>(expert_settings(settings), own,
                                                    expert_source(settings));
           }),
           "settings"_a);

  py::class_<ShiftDetector, experts::ExpertLearner>(m, "ShiftDetector")
      .def(py::init([](const py::dict& settings) {
             return std::make_unique<ShiftDetector>(
                 expert_settings(settings), detector_settings(settings), expert_source(settings));
           }),
           "settings"_a)
      .def("alarms", &ShiftDetector::alarms);

  // For tests: the statistic alone.
  py::class_<ShiftStatistic>(m, "ShiftStatistic")
      .def(py::init([](const py::dict& settings) {
             return ShiftStatistic(statistic_settings(settings));
           }),
           "settings"_a)
      .def(
          "update",
          [](ShiftStatistic& self, std::uint64_t own, const Array& losses, double allowance) {
            expect_size(losses, self.experts(), "losses");
            if (own >= self.experts()) throw std::invalid_argument("own is not an expert");
            return self.update(own, data(losses), allowance);
          },
          "own"_a, "losses"_a.noconvert(), "allowance"_a)
      .def("reset", &ShiftStatistic::reset);
}

}  // namespace dpoco::bindings
