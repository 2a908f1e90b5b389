// What every engine holds, in the words of its description (python/dpoco/privacy/mechanisms): read
// from the objects that clip, draw and count, not from the settings they were built from. A field
// that nothing compiled has (a constant of a proof) is left out.

#include <optional>
#include <string>

#include "dpoco/bandits/high_dimensional_bandit.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/oco/continuous_multiplicative_weights.hpp"
#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using mechanisms::Factorisation;
using mechanisms::SelectionNoise;
using mechanisms::SwitchSettings;

py::dict factorisation_of(const mechanisms::Correlation& held) {
  switch (held.factorisation) {
    case Factorisation::tree:
      return py::dict("kind"_a = "tree");
    case Factorisation::toeplitz:
      return py::dict("kind"_a = "square_root");
    case Factorisation::blt:
    case Factorisation::blt_normalised:
      break;
  }
  py::dict out("kind"_a = "blt", "decay"_a = py::tuple(py::cast(held.blt.decay)),
               "weights"_a = py::tuple(py::cast(held.blt.omega)));
  if (held.factorisation == Factorisation::blt_normalised) {
    out["kind"] = "blt_normalised";
    out["pushes"] = held.blt.ends.back();
    out["ends"] = py::tuple(py::cast(held.blt.ends));
    out["levels"] = py::tuple(py::cast(held.blt.levels));
  }
  return out;
}

std::optional<std::string> name_of(Growth growth) {
  if (growth == Growth::none) return std::nullopt;
  return growth == Growth::root ? "root" : "quarter";
}

py::dict sum_of(const mechanisms::ContinualSum& sum, const Batches& batches) {
  const mechanisms::Correlation held = sum.correlation();
  const mechanisms::Lattice& lattice = sum.lattice();
  const double unit = held.law.grid > 0.0 ? lattice.grid : 1.0;
  py::dict out("kind"_a = "gaussian_sum", "pushes"_a = sum.horizon(), "batch"_a = batches.first,
               "growth"_a = name_of(batches.growth), "scale"_a = held.law.scale * unit,
               "grid"_a = lattice.grid, "limit"_a = lattice.limit);
  if (held.law.scale > 0.0) {  // else there is no noise, of no order
    out["order"] = held.law.order;
    out["factorisation"] = factorisation_of(held);
  }
  return out;
}

py::dict vector_of(const losses::RecordClipper& clipper) {
  return py::dict("kind"_a = "clipped_vector", "dimension"_a = clipper.dimension(),
                  "norm"_a = clipper.order(), "bound"_a = clipper.bound(),
                  "bound_l2"_a = clipper.bound_l2());
}

// slope 0: the vector is the gradient itself.
py::dict gradient_of(const losses::RecordClipper& clipper, double slope) {
  if (slope == 0.0) return vector_of(clipper);
  return py::dict("kind"_a = "glm_gradient", "dimension"_a = clipper.dimension(),
                  "norm"_a = clipper.order(), "features"_a = clipper.bound(),
                  "features_l2"_a = clipper.bound_l2(), "slope"_a = slope);
}

const char* name_of(SelectionNoise noise) {
  if (noise == SelectionNoise::gumbel) return "gumbel";
  return noise == SelectionNoise::laplace ? "laplace" : "exponential";
}

py::dict describe(const frank_wolfe::FrankWolfe& self) {
  const losses::RecordClipper& clipper = self.leaves().clipper();
  const double slope = self.leaves().scalar_bound();
  if (const mechanisms::ContinualSum* sum = self.rule().sum()) {
    py::dict out = sum_of(*sum, {.first = self.batch()});
    out["summand"] = gradient_of(clipper, slope);
    return out;
  }
  const frank_wolfe::SelectionRuleSettings& held = *self.rule().selection();
  const py::dict scores("kind"_a = "vertex_scores", "slope"_a = slope == 0.0 ? 1.0 : slope,
                        "leaf"_a = clipper.bound(), "leaf_l2"_a = clipper.bound_l2(),
                        "diameter_l1"_a = held.diameters.l1, "diameter_l2"_a = held.diameters.l2,
                        "diameter_max"_a = held.diameters.linf, "batch"_a = self.batch(),
                        "offset"_a = self.settings().published_weights ? 1 : 0);
  return py::dict("kind"_a = "selections", "law"_a = name_of(held.noise), "scale"_a = held.scale,
                  "exponent"_a = held.exponent, "rounds"_a = self.horizon() / self.batch(),
                  "scores"_a = scores);
}

py::dict describe(const bandits::HighDimensionalBandit& self) {
  py::tuple parts(self.arms());
  for (std::uint64_t arm = 0; arm < self.arms(); ++arm) parts[arm] = describe(self.model(arm));
  return py::dict("kind"_a = "parts", "parts"_a = parts, "forced"_a = self.forced());
}

// The cap on fresh draws, None for none.
std::optional<std::uint64_t> cap_of(const SwitchSettings& bits) {
  if (bits.max_switches == SwitchSettings::kNoCap) return std::nullopt;
  return bits.max_switches;
}

py::dict window_of(const char* kind, double forced, double high, double low) {
  return py::dict("kind"_a = kind, "forced"_a = forced, "high"_a = high, "low"_a = low);
}

template <class Engine>
py::dict coupled_of(const Engine& self, const py::dict& draw, const py::dict& keep) {
  const SwitchSettings& bits = self.bits();
  const py::dict losses("kind"_a = "smooth_losses", "dimension"_a = self.intrinsic_dimension(),
                        "lipschitz"_a = self.settings().lipschitz,
                        "smoothness"_a = self.settings().smoothness);
  return py::dict("kind"_a = "coupled_draws", "losses"_a = losses, "draw"_a = draw, "keep"_a = keep,
                  "rounds"_a = bits.horizon, "block"_a = bits.block, "cap"_a = cap_of(bits));
}

py::dict describe(const oco::CoupledRegularizedLeader& self) {
  using oco::LeaderCoupling;
  const auto& own = self.settings();
  const double forced = self.bits().forced;
  const auto keep = [&] {
    switch (own.coupling) {
      case LeaderCoupling::density_ratio:
        return window_of("density_ratio", forced, own.clip_high, own.clip_low);
      case LeaderCoupling::scheduled:
        return py::dict("kind"_a = "scheduled", "forced"_a = forced);
      case LeaderCoupling::maximal:
        break;
    }
    return py::dict("kind"_a = "maximal", "forced"_a = forced);
  };
  const py::dict draw("kind"_a = "tilted_minimum", "noise"_a = own.noise_scale,
                      "step"_a = own.step_size);
  return coupled_of(self, draw, keep());
}

py::dict describe(const oco::ContinuousMultiplicativeWeights& self) {
  using oco::Coupling;
  const auto& own = self.settings();
  const double forced = self.bits().forced;
  const auto keep = [&] {
    switch (own.coupling) {
      case Coupling::density_ratio:
        return window_of("density_ratio", forced, own.clip_high, own.clip_low);
      case Coupling::dartboard:
        return py::dict("kind"_a = "dartboard", "forced"_a = forced, "span"_a = own.factor_range);
      case Coupling::anchored:
        return py::dict("kind"_a = "anchored", "forced"_a = forced, "width"_a = own.clip_high);
      case Coupling::scheduled:
        return py::dict("kind"_a = "scheduled", "forced"_a = forced);
      case Coupling::maximal:
        break;
    }
    return py::dict("kind"_a = "maximal", "forced"_a = forced);
  };
  const py::dict draw("kind"_a = "gibbs_draw",
                      "inverse_temperature"_a = own.gibbs.inverse_temperature,
                      "regularization"_a = own.gibbs.regularization,
                      "tolerance"_a = own.gibbs.exact_only ? 0.0 : own.gibbs.tolerance);
  return coupled_of(self, draw, keep());
}

template <class... Engines>
void define(py::module_& m) {
  (m.def(
       "described", [](const Engines& engine) { return describe(engine); }, "engine"_a),
   ...);
}

}  // namespace

// After all engines.
void register_descriptions(py::module_& m) {
  define<frank_wolfe::FrankWolfe, bandits::HighDimensionalBandit, oco::CoupledRegularizedLeader,
         oco::ContinuousMultiplicativeWeights>(m);
}

}  // namespace dpoco::bindings
