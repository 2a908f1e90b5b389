#include "dpoco/oco/continuous_multiplicative_weights.hpp"

#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::ContinuousMultiplicativeWeights;
using oco::ContinuousMultiplicativeWeightsSettings;
using oco::Coupling;
using Engine = ContinuousMultiplicativeWeights;

namespace {

Coupling coupling_named(const std::string& keep) {
  if (keep == "density_ratio") return Coupling::density_ratio;
  if (keep == "dartboard") return Coupling::dartboard;
  if (keep == "anchored") return Coupling::anchored;
  if (keep == "scheduled") return Coupling::scheduled;
  if (keep == "maximal") return Coupling::maximal;
  throw std::invalid_argument("unknown coupling");
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::object& losses, const py::object& mechanism,
                                    const py::object& tuning, const py::object& claim) {
  ContinuousMultiplicativeWeightsSettings own;
  const CoupledDraws drawn = read_coupled_draws(mechanism, [&](Fields& draw) {
    draw.expect_kind("gibbs_draw");
    draw.read("inverse_temperature", own.gibbs.inverse_temperature);
    draw.read("regularization", own.gibbs.regularization);
    const auto tolerance = draw.read<double>("tolerance");
    own.gibbs.exact_only = tolerance == 0.0;
    if (tolerance > 0.0) own.gibbs.tolerance = tolerance;
    draw.skip("half_width");  // the body's own
  });
  own.rule = drawn.rule;
  own.coupling = coupling_named(drawn.keep);
  own.clip_high = drawn.high;
  own.clip_low = drawn.low;
  own.factor_range = drawn.span;
  own.lipschitz = drawn.lipschitz;
  own.smoothness = drawn.smoothness;
  own.gibbs.lipschitz = own.lipschitz * static_cast<double>(own.rule.horizon);
  read_whole({tuning, "the tuning of continuous multiplicative weights"}, [&](Fields& from) {
    from.read("anchors", own.anchors);
    from.read("clip_error", own.clip_error);
    own.gibbs.chain = chain_named(from.read<std::string>("chain"));
    from.read("most_planes", own.gibbs.most_planes);
    from.read("most_proposals", own.gibbs.most_proposals);
    return true;
  });
  auto sum = make_loss_sum(std::move(domain), {losses, "a sum of losses"});
  expect_dimension(drawn, *sum);
  return std::make_unique<Engine>(std::move(sum), own, read_claim(claim));
}

}  // namespace

void register_continuous_multiplicative_weights(py::module_& m) {
  py::class_<Engine, oco::CoupledLearner>(m, "ContinuousMultiplicativeWeights")
      .def(py::init(&make_engine))
      .def("nonprivate_log_factor", &Engine::nonprivate_log_factor)
      .def("nonprivate_anchor_mean", array_getter<const Engine>(&Engine::intrinsic_dimension,
                                                                &Engine::nonprivate_anchor_mean));
}

}  // namespace dpoco::bindings
