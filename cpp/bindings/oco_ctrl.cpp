#include "coupled_learner.hpp"
#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::CoupledRegularizedLeaderSettings;
using oco::LeaderCoupling;
using Engine = oco::CoupledRegularizedLeader;

namespace {

LeaderCoupling coupling_from(const std::string& name) {
  if (name == "density_ratio") return LeaderCoupling::density_ratio;
  if (name == "scheduled") return LeaderCoupling::scheduled;
  if (name == "maximal") return LeaderCoupling::maximal;
  throw std::invalid_argument("unknown coupling");
}

// `losses`: see make_loss_sum. step_size may be infinite.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::dict& losses, const py::dict& settings) {
  const auto real = [&](const char* name) { return settings[name].cast<double>(); };
  const CoupledRegularizedLeaderSettings own{
      .rule = switch_settings(settings),
      .coupling = coupling_from(settings["coupling"].cast<std::string>()),
      .step_size = real("step_size"),
      .noise_scale = real("noise_scale"),
      .noise_growth = settings["noise_growth"].cast<bool>(),
      .barrier_weight = real("barrier_weight"),
      .clip_high = real("clip_high"),
      .clip_low = real("clip_low"),
      .lipschitz = real("lipschitz"),
      .smoothness = real("smoothness"),
      .strong_convexity = real("strong_convexity")};
  return std::make_unique<Engine>(
      make_loss_sum(std::move(domain), losses), own,
      make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>()));
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
