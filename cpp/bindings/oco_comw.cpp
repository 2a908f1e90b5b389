#include "dpoco/oco/continuous_multiplicative_weights.hpp"

#include "coupled_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::ContinuousMultiplicativeWeights;
using oco::ContinuousMultiplicativeWeightsSettings;
using oco::Coupling;
using Engine = ContinuousMultiplicativeWeights;

namespace {

Coupling coupling_from(const std::string& name) {
  if (name == "density_ratio") return Coupling::density_ratio;
  if (name == "dartboard") return Coupling::dartboard;
  if (name == "anchored") return Coupling::anchored;
  if (name == "scheduled") return Coupling::scheduled;
  if (name == "maximal") return Coupling::maximal;
  throw std::invalid_argument("unknown coupling");
}

// `losses`: see make_loss_sum. smoothness may be infinite.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::dict& losses, const py::dict& settings) {
  const auto real = [&](const char* name) { return settings[name].cast<double>(); };
  const auto count = [&](const char* name) { return settings[name].cast<std::uint64_t>(); };
  const ContinuousMultiplicativeWeightsSettings own{
      .rule = switch_settings(settings),
      .coupling = coupling_from(settings["coupling"].cast<std::string>()),
      .gibbs = {.inverse_temperature = real("inverse_temperature"),
                .regularization = real("regularization"),
                .exact_only = settings["exact_only"].cast<bool>(),
                .tolerance = real("sampler_tolerance")},
      .clip_high = real("clip_high"),
      .clip_low = real("clip_low"),
      .factor_range = real("factor_range"),
      .anchors = count("anchors"),
      .lipschitz = real("lipschitz"),
      .clip_error = real("clip_error"),
      .smoothness = real("smoothness")};
  return std::make_unique<Engine>(
      make_loss_sum(std::move(domain), losses), own,
      make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>()));
}

}  // namespace

void register_continuous_multiplicative_weights(py::module_& m) {
  py::class_<Engine, oco::CoupledLearner>(m, "ContinuousMultiplicativeWeights")
      .def(py::init(&make_engine), "domain"_a, "losses"_a, "settings"_a)
      .def("nonprivate_log_factor", &Engine::nonprivate_log_factor)
      .def("nonprivate_log_change", &Engine::nonprivate_log_change)
      .def("nonprivate_anchor_mean", [](const Engine& self) {
        return read_only(self.intrinsic_dimension(),
                         [&](double* out) { self.nonprivate_anchor_mean(out); });
      });
}

}  // namespace dpoco::bindings
