#include "dpoco/experts/oblivious_tracker.hpp"

#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::ObliviousTracker;
using samplers::PathState;
using samplers::SwitchingPaths;

namespace {

// The contents of tracker_draws: sizes, paths, coins.
struct Draws {
  std::uint64_t experts = 1;
  double rate = 1.0;
  std::unique_ptr<SwitchingPaths> paths;
  mechanisms::SwitchSettings coins;
};

// `switches` is the largest number of switches of the prior "at_most". Paths have one level more.
Draws read_draws(const py::object& mechanism, std::uint64_t rounds, std::uint64_t switches) {
  Fields from(mechanism, "tracker_draws");
  from.expect_kind("tracker_draws");
  Draws own{.experts = from.read<std::uint64_t>("experts"),
            .rate = from.read<double>("learning_rate"),
            .paths = nullptr,
            .coins = {.horizon = rounds,
                      .block = from.read<std::uint64_t>("batch"),
                      .forced = from.read<double>("forced"),
                      .max_switches = from.read<std::optional<std::uint64_t>>("cap").value_or(
                          mechanisms::SwitchSettings::kNoCap)}};
  if (from.read<std::optional<std::uint64_t>>("horizon").value_or(rounds) < rounds) {
    throw std::invalid_argument("there are more rounds");
  }
  const bool at_most = from.read_name<bool>("prior", {{"at_most", true}, {"share", false}});
  const double share = from.read<std::optional<double>>("share_rate").value_or(0.0);
  from.finish();
  own.paths =
      !at_most && own.experts > 1 && share > 0.0
          ? samplers::make_share_paths(own.experts, share, own.rate)
          : samplers::make_at_most_paths(own.experts, rounds, at_most ? switches : 0, own.rate);
  return own;
}

std::unique_ptr<ObliviousTracker> make_tracker(const py::object& mechanism,
                                               const py::object& problem, std::uint64_t switches,
                                               const py::object& claim) {
  const experts::ExpertSettings shared = read_experts(problem);
  Draws own = read_draws(mechanism, shared.horizon, switches);
  if (own.experts != shared.experts) throw std::invalid_argument("there are other experts");
  return std::make_unique<ObliviousTracker>(shared, std::move(own.paths), own.coins, own.rate,
                                            read_claim(claim));
}

// Shape (levels, N).
Array law_of(const SwitchingPaths& paths) {
  Array out({static_cast<py::ssize_t>(paths.levels()), static_cast<py::ssize_t>(paths.experts())});
  paths.nonprivate_law(writable(out));
  return out;
}

// Shape (levels,).
Array chances_of(const SwitchingPaths& paths) {
  Array out(static_cast<py::ssize_t>(paths.levels()));
  const std::span<double> to = writable(out);
  for (std::size_t level = 0; level < to.size(); ++level) to[level] = paths.move_chance(level);
  return out;
}

py::tuple as_pair(const PathState& state) { return py::make_tuple(state.level, state.expert); }

}  // namespace

void register_oblivious_tracker(py::module_& m) {
  py::class_<ObliviousTracker, ExpertLearner>(m, "ObliviousTracker")
      .def(py::init(&make_tracker), "mechanism"_a, "problem"_a, "switches"_a, "claim"_a)
      .def_property_readonly("resamples", &ObliviousTracker::resamples)
      .def("nonprivate_state",
           [](const ObliviousTracker& self) { return as_pair(self.nonprivate_state()); })
      .def("nonprivate_kernel", [](const ObliviousTracker& self, Reals losses) {
        expect_size(losses, self.experts(), "losses");
        const auto kernel = self.nonprivate_kernel(losses);
        return py::make_tuple(kernel.keep, law_of(*kernel.next), chances_of(*kernel.next));
      });
}

}  // namespace dpoco::bindings
