#include "dpoco/oco/continuous_multiplicative_weights.hpp"

#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::ContinuousMultiplicativeWeights;
using oco::ContinuousMultiplicativeWeightsSettings;
using oco::Coupling;
using Engine = ContinuousMultiplicativeWeights;

namespace {

// smoothness may be infinite.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::object& losses, const py::object& settings) {
  return read_whole({settings, "continuous multiplicative weights"}, [&](Fields& from) {
    const auto rounds = from.read<std::uint64_t>("rounds");
    ContinuousMultiplicativeWeightsSettings own{
        .rule = read_switches(from, rounds, "max_switches"),
        .coupling =
            from.read_name<Coupling>("coupling", {{"density_ratio", Coupling::density_ratio},
                                                  {"dartboard", Coupling::dartboard},
                                                  {"anchored", Coupling::anchored},
                                                  {"scheduled", Coupling::scheduled},
                                                  {"maximal", Coupling::maximal}}),
        .gibbs = {.inverse_temperature = from.read<double>("inverse_temperature"),
                  .regularization = from.read<double>("regularization"),
                  .exact_only = from.read<bool>("exact_only"),
                  .tolerance = from.read<double>("sampler_tolerance")},
        .clip_high = from.read<double>("clip_high"),
        .clip_low = from.read<double>("clip_low"),
        .factor_range = from.read<double>("factor_range"),
        .anchors = from.read<std::uint64_t>("anchors"),
        .lipschitz = from.read<double>("lipschitz"),
        .clip_error = from.read<double>("clip_error"),
        .smoothness = from.read<double>("smoothness")};
    if (from.has("chain")) own.gibbs.chain = chain_named(from.read<std::string>("chain"));
    own.gibbs.lipschitz = own.lipschitz * static_cast<double>(rounds);
    for (const auto& [name, limit] : {std::pair{"most_planes", &own.gibbs.most_planes},
                                      {"most_proposals", &own.gibbs.most_proposals}}) {
      if (from.has(name)) from.read(name, *limit);
    }
    return std::make_unique<Engine>(make_loss_sum(std::move(domain), {losses, "a sum of losses"}),
                                    own, read_source(from));
  });
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
