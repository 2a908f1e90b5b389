#include "dpoco/experts/shift_detector.hpp"

#include "dpoco/experts/epoch_selector.hpp"
#include "dpoco/experts/shift_statistic.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using experts::EpochSelector;
using experts::ShiftDetector;
using experts::ShiftStatistic;

namespace {

using Expert = std::optional<std::uint64_t>;

mechanisms::NoisyMaxSettings selection_of(Fields& from) {
  return read_whole(from.open("selection", "a noisy max"), read_noisy_max);
}

experts::ShiftStatisticSettings statistic_of(Fields from) {
  using experts::Windows;
  return read_whole(std::move(from), [](Fields& own) {
    return experts::ShiftStatisticSettings{
        .experts = own.read<std::uint64_t>("experts"),
        .windows = own.read_name<Windows>("windows", {{"tangent", Windows::tangent},
                                                      {"dyadic", Windows::dyadic},
                                                      {"naive", Windows::naive}}),
        .offsets = own.read<std::vector<double>>("offsets"),
        .slopes = own.read<std::vector<double>>("slopes"),
        .reach = own.read<std::uint64_t>("reach")};
  });
}

experts::BiasAllowance bias_of(Fields from) {
  return read_whole(std::move(from), [](Fields& own) {
    return experts::BiasAllowance{.log_union = own.read<double>("log_union"),
                                  .noise = own.read<double>("noise"),
                                  .unselected = own.read<double>("unselected")};
  });
}

std::unique_ptr<EpochSelector> make_epoch_selector(const py::object& settings) {
  return read_whole({settings, "an epoch selector"}, [](Fields& from) {
    const experts::ExpertSettings shared = read_experts(from);
    const experts::EpochSelectorSettings own{.selection = selection_of(from),
                                             .first = from.read<Expert>("first"),
                                             .longest = from.read<std::uint64_t>("longest")};
    return std::make_unique<EpochSelector>(shared, own, read_source(from));
  });
}

std::unique_ptr<ShiftDetector> make_shift_detector(const py::object& settings) {
  return read_whole({settings, "a shift detector"}, [](Fields& from) {
    const experts::ExpertSettings shared = read_experts(from);
    const experts::ShiftDetectorSettings own{
        .selection = selection_of(from),
        .first = from.read<Expert>("first"),
        .bias = bias_of(from.open("bias", "an allowance for bias")),
        .detects = from.read<bool>("detects"),
        .test = read_whole(from.open("test", "a threshold test"), read_above_threshold),
        .threshold = from.read<double>("threshold"),
        .statistic = statistic_of(from.open("statistic", "a statistic of shifts"))};
    return std::make_unique<ShiftDetector>(shared, own, read_source(from));
  });
}

}  // namespace

void register_shift_detector(py::module_& m) {
  py::class_<EpochSelector, experts::ExpertLearner>(m, "EpochSelector")
      .def(py::init(&make_epoch_selector), "settings"_a);

  py::class_<ShiftDetector, experts::ExpertLearner>(m, "ShiftDetector")
      .def(py::init(&make_shift_detector), "settings"_a)
      .def("alarms", &ShiftDetector::alarms);

  // For tests: the statistic alone.
  py::class_<ShiftStatistic>(m, "ShiftStatistic")
      .def(py::init([](const py::object& settings) {
             return ShiftStatistic(statistic_of({settings, "a statistic of shifts"}));
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
