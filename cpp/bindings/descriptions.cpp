// What every engine holds, in the words of its description (python/dpoco/privacy/mechanisms): read
// from the objects that clip, draw and count, not from the settings they were built from. A field
// that nothing compiled has (a constant of a proof) is left out.

#include <cmath>

#include "dpoco/experts/batch_share.hpp"
#include "dpoco/experts/epoch_selector.hpp"
#include "dpoco/experts/oblivious_tracker.hpp"
#include "dpoco/experts/shift_detector.hpp"
#include "dpoco/frank_wolfe/sufficient_statistics.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using mechanisms::AboveThreshold;
using mechanisms::NoisyMax;
using mechanisms::SelectionNoise;
using mechanisms::SwitchSettings;
using mechanisms::ThresholdNoise;

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
  define<mechanisms::Answers<NoisyMax>, mechanisms::Answers<AboveThreshold>, experts::EpochSelector,
         experts::ShiftDetector, experts::ObliviousTracker, experts::BatchShare,
         frank_wolfe::SufficientStatistics>(m);
}

}  // namespace dpoco::bindings
