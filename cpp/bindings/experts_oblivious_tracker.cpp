#include "dpoco/experts/oblivious_tracker.hpp"

#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::ObliviousTracker;
using samplers::PathState;
using samplers::SwitchingPaths;

namespace {

std::unique_ptr<SwitchingPaths> read_paths(Fields& from, std::uint64_t number, std::uint64_t rounds,
                                           double rate) {
  const bool at_most = from.read_name<bool>("prior", {{"at_most", true}, {"share", false}});
  const auto switches = from.read<std::uint64_t>("switches");
  const auto share_rate = from.read<double>("share_rate");
  if (!at_most && number > 1 && share_rate > 0.0) {
    return samplers::make_share_paths(number, share_rate, rate);
  }
  return samplers::make_at_most_paths(number, rounds, at_most ? switches : 0, rate);
}

std::unique_ptr<SwitchingPaths> make_paths(const py::object& settings) {
  return read_whole({settings, "paths of experts"}, [](Fields& from) {
    const auto number = from.read<std::uint64_t>("experts");
    const auto rounds = from.read<std::uint64_t>("rounds");
    return read_paths(from, number, rounds, from.read<double>("learning_rate"));
  });
}

std::unique_ptr<ObliviousTracker> make_tracker(const py::object& settings) {
  return read_whole({settings, "a tracker of experts"}, [](Fields& from) {
    const experts::ExpertSettings shared = read_experts(from);
    const auto rate = from.read<double>("learning_rate");
    auto paths = read_paths(from, shared.experts, shared.horizon, rate);
    const auto coins = read_switches(from, shared.horizon, "max_resamples");
    return std::make_unique<ObliviousTracker>(shared, std::move(paths), coins, rate,
                                              read_source(from));
  });
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
