#include "dpoco/experts/oblivious_tracker.hpp"

#include "expert_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::ObliviousTracker;
using samplers::PathState;
using samplers::SwitchingPaths;

namespace {

std::unique_ptr<SwitchingPaths> make_paths(const py::dict& settings) {
  const auto number = settings["experts"].cast<std::uint64_t>();
  const double rate = settings["learning_rate"].cast<double>();
  if (settings["prior"].cast<std::string>() == "at_most") {
    return samplers::make_at_most_paths(number, settings["rounds"].cast<std::uint64_t>(),
                                        settings["switches"].cast<std::uint64_t>(), rate);
  }
  const double share_rate = settings["share_rate"].cast<double>();
  if (number > 1 && share_rate > 0.0) return samplers::make_share_paths(number, share_rate, rate);
  return samplers::make_at_most_paths(number, settings["rounds"].cast<std::uint64_t>(), 0, rate);
}

std::unique_ptr<ObliviousTracker> make_tracker(const py::dict& settings) {
  const experts::ExpertSettings shared = expert_settings(settings);
  const py::object cap = settings["max_resamples"];  // None: no cap
  const mechanisms::SwitchSettings coins{.horizon = shared.horizon,
                                         .block = settings["batch"].cast<std::uint64_t>(),
                                         .forced = settings["forced_switch"].cast<double>(),
                                         .max_switches = cap.is_none()
                                                             ? mechanisms::SwitchSettings::kNoCap
                                                             : cap.cast<std::uint64_t>()};
  return std::make_unique<ObliviousTracker>(shared, make_paths(settings), coins,
                                            settings["learning_rate"].cast<double>(),
                                            expert_source(settings));
}

// Shape (levels, N).
Array law_of(const SwitchingPaths& paths) {
  Array out({static_cast<py::ssize_t>(paths.levels()), static_cast<py::ssize_t>(paths.experts())});
  paths.nonprivate_law(out.mutable_data());
  return out;
}

// Shape (levels,).
Array chances_of(const SwitchingPaths& paths) {
  Array out(static_cast<py::ssize_t>(paths.levels()));
  for (std::size_t level = 0; level < paths.levels(); ++level) {
    out.mutable_data()[level] = paths.move_chance(level);
  }
  return out;
}

}  // namespace

void register_oblivious_tracker(py::module_& m) {
  py::class_<SwitchingPaths>(m, "SwitchingPaths")
      .def(py::init(&make_paths), "settings"_a)
      .def_property_readonly("round", &SwitchingPaths::round)
      .def(
          "learn",
          [](SwitchingPaths& self, const Array& losses) {
            expect_size(losses, self.experts(), "losses");
            self.learn(data(losses));
          },
          "losses"_a.noconvert())
      .def("skip", &SwitchingPaths::skip)
      .def("nonprivate_law", &law_of)
      .def("move_chances", &chances_of)
      .def("draw",
           [](SwitchingPaths& self, random::Source& source) {
             const PathState state = self.draw(source);
             return py::make_tuple(state.level, state.expert);
           })
      .def("state", &state_of<SwitchingPaths>)
      .def("restore", &restore<SwitchingPaths>, "state"_a);

  py::class_<ObliviousTracker, ExpertLearner>(m, "ObliviousTracker")
      .def(py::init(&make_tracker), "settings"_a)
      .def_property_readonly("resamples", &ObliviousTracker::resamples)
      .def("nonprivate_state",
           [](const ObliviousTracker& self) {
             const PathState state = self.nonprivate_state();
             return py::make_tuple(state.level, state.expert);
           })
      .def(
          "nonprivate_set_state",
          [](ObliviousTracker& self, std::uint64_t level, std::uint64_t expert) {
            self.nonprivate_set_state({.level = level, .expert = expert});
          },
          "level"_a, "expert"_a)
      .def(
          "nonprivate_kernel",
          [](const ObliviousTracker& self, const Array& losses) {
            expect_size(losses, self.experts(), "losses");
            const auto kernel = self.nonprivate_kernel(data(losses));
            return py::make_tuple(kernel.keep, law_of(*kernel.next), chances_of(*kernel.next));
          },
          "losses"_a.noconvert());
}

}  // namespace dpoco::bindings
