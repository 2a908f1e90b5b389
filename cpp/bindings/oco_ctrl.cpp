#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::CoupledRegularizedLeaderSettings;
using oco::LeaderCoupling;
using Engine = oco::CoupledRegularizedLeader;

namespace {

// step_size may be infinite.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::object& losses, const py::object& settings) {
  return read_whole({settings, "a coupled leader"}, [&](Fields& from) {
    const auto rounds = from.read<std::uint64_t>("rounds");
    const CoupledRegularizedLeaderSettings own{
        .rule = read_switches(from, rounds, "max_switches"),
        .coupling = from.read_name<LeaderCoupling>(
            "coupling", {{"density_ratio", LeaderCoupling::density_ratio},
                         {"scheduled", LeaderCoupling::scheduled},
                         {"maximal", LeaderCoupling::maximal}}),
        .step_size = from.read<double>("step_size"),
        .noise_scale = from.read<double>("noise_scale"),
        .noise_growth = from.read<bool>("noise_growth"),
        .barrier_weight = from.read<double>("barrier_weight"),
        .clip_high = from.read<double>("clip_high"),
        .clip_low = from.read<double>("clip_low"),
        .lipschitz = from.read<double>("lipschitz"),
        .smoothness = from.read<double>("smoothness"),
        .strong_convexity = from.read<double>("strong_convexity")};
    return std::make_unique<Engine>(make_loss_sum(std::move(domain), {losses, "a sum of losses"}),
                                    own, read_source(from));
  });
}

// Reads u, intrinsic_dimension() entries.
const double* coordinates(const Engine& self, const Array& u) {
  expect_size(u, static_cast<std::size_t>(self.intrinsic_dimension()), "u");
  return data(u);
}

}  // namespace

void register_coupled_regularized_leader(py::module_& m) {
  py::class_<Engine, oco::CoupledLearner>(m, "CoupledRegularizedLeader")
      .def(py::init(&make_engine), "domain"_a, "losses"_a, "settings"_a)
      .def_property_readonly("grid", &Engine::grid)
      .def("clip_width", &Engine::clip_width, "round"_a)
      .def("nonprivate_log_ratio", &Engine::nonprivate_log_ratio)
      .def("nonprivate_residual", &Engine::nonprivate_residual)
      .def(
          "nonprivate_log_density",
          [](Engine& self, const Array& u) {
            return self.nonprivate_log_density(coordinates(self, u));
          },
          "u"_a.noconvert())
      .def(
          "nonprivate_log_ratio_at",
          [](Engine& self, const Array& u) {
            return self.nonprivate_log_ratio_at(coordinates(self, u));
          },
          "u"_a.noconvert())
      .def(
          "nonprivate_solve",
          [](Engine& self, const Array& z) {
            const double* noise = coordinates(self, z);
            return read_only(self.intrinsic_dimension(),
                             [&](double* out) { self.nonprivate_solve(noise, out); });
          },
          "z"_a.noconvert());
}

}  // namespace dpoco::bindings
