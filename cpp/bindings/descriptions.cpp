// What every engine holds, in the words of its description (python/dpoco/privacy/mechanisms): read
// from the objects that clip, draw and count, not from the settings they were built from. A field
// that nothing compiled has (a constant of a proof) is left out.

#include <cmath>

#include "dpoco/bandits/high_dimensional_bandit.hpp"
#include "dpoco/experts/batch_share.hpp"
#include "dpoco/experts/epoch_selector.hpp"
#include "dpoco/experts/oblivious_tracker.hpp"
#include "dpoco/experts/shift_detector.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/frank_wolfe/sufficient_statistics.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "dpoco/oco/continuous_multiplicative_weights.hpp"
#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using mechanisms::AboveThreshold;
using mechanisms::Factorisation;
using mechanisms::NoisyMax;
using mechanisms::SelectionNoise;
using mechanisms::SwitchSettings;
using mechanisms::ThresholdNoise;

py::dict factorisation_of(const mechanisms::Correlation& held) {
  switch (held.factorisation) {
    case Factorisation::tree:
      return py::dict("kind"_a = "tree");
    case Factorisation::toeplitz:
      return py::dict("kind"_a = "square_root");
    case Factorisation::banded:
      return py::dict("kind"_a = "banded", "pushes"_a = held.band.levels.size(),
                      "band"_a = held.band.coefficients.size(),
                      "coefficients"_a = py::tuple(py::cast(held.band.coefficients)),
                      "levels"_a = py::tuple(py::cast(held.band.levels)));
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

py::dict moments_of(const losses::RecordClipper& clipper, double label, double weight,
                    std::uint64_t arms) {
  return py::dict("kind"_a = "second_moments", "dimension"_a = clipper.dimension(),
                  "norm"_a = clipper.order(), "features"_a = clipper.bound(),
                  "features_l2"_a = clipper.bound_l2(), "label"_a = label, "weight"_a = weight,
                  "arms"_a = arms);
}

const char* name_of(SelectionNoise noise) {
  if (noise == SelectionNoise::gumbel) return "gumbel";
  return noise == SelectionNoise::laplace ? "laplace" : "exponential";
}

py::dict selection_of(const mechanisms::NoisyMaxSettings& held) {
  return py::dict("kind"_a = "selections", "law"_a = name_of(held.noise), "scale"_a = held.scale);
}

py::dict test_of(const mechanisms::AboveThresholdSettings& held) {
  return py::dict("kind"_a = "threshold_tests",
                  "law"_a = held.noise == ThresholdNoise::laplace ? "laplace" : "exponential",
                  "threshold_scale"_a = held.threshold_scale, "query_scale"_a = held.query_scale,
                  "alarms"_a = held.alarms);
}

template <class... Part>
py::dict parts_of(Part... parts) {
  return py::dict("kind"_a = "parts", "parts"_a = py::make_tuple(parts...));
}

double largest_label(const losses::GlmLoss& loss) {
  return std::fmax(std::fabs(loss.label_low), std::fabs(loss.label_high));
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

py::dict describe(const mechanisms::Answers<NoisyMax>& self) {
  py::dict out = selection_of(self.settings());
  out["rounds"] = self.horizon();
  return out;
}

py::dict describe(const mechanisms::Answers<AboveThreshold>& self) {
  return test_of(self.settings());
}

py::dict describe(const experts::EpochSelector& self) {
  return parts_of(selection_of(self.selection()));
}

py::dict describe(const experts::ShiftDetector& self) {
  const py::dict selection = selection_of(self.selection());
  return self.detects() ? parts_of(parts_of(selection, test_of(self.test()))) : parts_of(selection);
}

// The cap on fresh draws, None for none.
std::optional<std::uint64_t> cap_of(const SwitchSettings& bits) {
  if (bits.max_switches == SwitchSettings::kNoCap) return std::nullopt;
  return bits.max_switches;
}

py::dict describe(const experts::ObliviousTracker& self) {
  const SwitchSettings& coins = self.coins();
  if (self.paths().rate() != self.learning_rate()) {
    throw std::logic_error("paths and coins have different learning rates");
  }
  py::dict out("kind"_a = "tracker_draws", "experts"_a = self.experts(),
               "learning_rate"_a = self.learning_rate(), "forced"_a = coins.forced,
               "batch"_a = coins.block, "cap"_a = cap_of(coins));
  if (const auto rate = self.paths().share_rate()) {
    out["prior"] = "share";
    out["share_rate"] = *rate;
  } else if (self.levels() > 1) {
    out["prior"] = "at_most";
  }
  return out;
}

py::dict describe(const experts::BatchShare& self) {
  const mechanisms::VectorRelease& release = self.release();
  py::dict out("kind"_a = "batch_release", "experts"_a = self.experts(), "law"_a = release.law(),
               "batch"_a = self.settings().batch, "grid"_a = release.grid());
  // The scale of a response is one over its epsilon.
  const bool response = std::string(release.law()) == "response";
  out[response ? "epsilon" : "scale"] = release.strength();
  return out;
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

py::dict describe(const frank_wolfe::SufficientStatistics& self) {
  const frank_wolfe::StatisticsSettings& held = self.settings();
  if (self.noise().strength() != held.noise_scale) {
    throw std::logic_error("a sum has other noise than it was built with");
  }
  return py::dict(
      "kind"_a = "gaussian_sum", "pushes"_a = 1, "growth"_a = py::none(), "limit"_a = 0,
      "batch"_a = held.records, "scale"_a = held.noise_scale, "grid"_a = self.noise().grid(),
      "summand"_a = moments_of(self.clipper(), largest_label(self.loss()), held.weight, 1));
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
  define<frank_wolfe::FrankWolfe, bandits::HighDimensionalBandit, mechanisms::Answers<NoisyMax>,
         mechanisms::Answers<AboveThreshold>, experts::EpochSelector, experts::ShiftDetector,
         experts::ObliviousTracker, experts::BatchShare, oco::CoupledRegularizedLeader,
         oco::ContinuousMultiplicativeWeights, frank_wolfe::SufficientStatistics>(m);
}

}  // namespace dpoco::bindings
