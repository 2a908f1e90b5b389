#include <string>

#include "gibbs_sampler.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

samplers::GibbsChain chain_named(const std::string& name) {
  using Chain = samplers::GibbsChain;
  for (const auto& [each, chain] : {std::pair{"automatic", Chain::automatic},
                                    {"hit_and_run", Chain::hit_and_run},
                                    {"langevin", Chain::langevin},
                                    {"proximal", Chain::proximal}}) {
    if (name == each) return chain;
  }
  throw std::invalid_argument("unknown chain");
}

void register_gibbs(py::module_& m) {
  m.def("proximal_steps", &samplers::proximal_steps);
  py::class_<GibbsSampler>(m, "GibbsSampler", py::is_final())
      .def(py::init([](std::shared_ptr<domains::Domain> domain, const py::object& losses,
                       double inverse_temperature, double regularization, bool exact_only,
                       double tolerance, double chain_below, Index langevin_above,
                       const std::string& chain, double lipschitz) {
             return std::make_unique<GibbsSampler>(
                 std::move(domain), losses,
                 samplers::GibbsSettings{.inverse_temperature = inverse_temperature,
                                         .regularization = regularization,
                                         .exact_only = exact_only,
                                         .tolerance = tolerance,
                                         .chain_below = chain_below,
                                         .langevin_above = langevin_above,
                                         .chain = chain_named(chain),
                                         .lipschitz = lipschitz});
           }),
           "domain"_a, "losses"_a, "inverse_temperature"_a, "regularization"_a,
           "exact_only"_a = true, "tolerance"_a = 1e-12, "chain_below"_a = 1e-4,
           "langevin_above"_a = 50, "chain"_a = "automatic", "lipschitz"_a = 0.0)
      .def("observe_vectors", &GibbsSampler::observe_vectors)
      .def("observe_records", &GibbsSampler::observe_records)
      .def("observe_matrix", &GibbsSampler::observe_matrix)
      .def("observe_loss", &GibbsSampler::observe_loss)
      .def("fill", &GibbsSampler::fill)
      .def("walk", &GibbsSampler::walk)
      .def("chain_steps", &GibbsSampler::chain_steps)
      .def("state", &GibbsSampler::state)
      .def("set_state", &GibbsSampler::set_state);
}

}  // namespace dpoco::bindings
