#include "dpoco/oco/noisy_newton.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

NoisyNewton::NoisyNewton(losses::GlmLoss loss, losses::RecordClipper clipper,
                         NoisyNewtonSettings settings, mechanisms::ContinualSum sum,
                         std::unique_ptr<DecisionRule> rule)
    : BatchLearner(settings.horizon, settings.batches, std::move(sum), std::move(rule)),
      loss_(loss),
      clipper_(std::move(clipper)),
      settings_(std::move(settings)),
      clipped_(decision_) {
  if (!(settings_.scalar_bound > 0.0 && settings_.curvature_bound > 0.0 &&
        settings_.curvature_weight > 0.0)) {
    throw std::invalid_argument("bounds, weights and steps must be positive");
  }
  if (loss_.kind == losses::GlmKind::squared) {
    throw std::invalid_argument("slopes of the squared loss are not bounded");
  }
  if (entries() != decision_.size() + packed_size(decision_.size())) {
    throw std::invalid_argument("the sum must fit the statistics and their deviations");
  }
}

// The rows of the triangle contain products of clipped entries.
double NoisyNewton::add_leaf(std::span<const double> at, std::span<const double> features,
                             double label, std::span<double> to, std::span<double> rest,
                             std::span<double> x) const {
  const std::size_t d = x.size();
  assert(to.size() == entries() && (rest.empty() || rest.size() == to.size()));
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  for (std::size_t i = 0; i < d; ++i) x[i] = multiplier * features[i];
  const double margin = simd::dot(at, x);
  const bool huber = loss_.kind == losses::GlmKind::huber;  // equal for all margins, because
  const double curvature = huber ? loss_.weight : loss_.curvature(margin, y);  // it must be public
  const double bound = settings_.scalar_bound;
  const double slope = std::clamp(loss_.derivative(margin, y), -bound, bound);
  const double weight =
      settings_.curvature_weight * std::clamp(curvature, 0.0, settings_.curvature_bound);
  std::size_t at_entry = 0;
  const auto add = [&](double factor, std::span<const double> row) {
    const std::size_t n = row.size();
    add_scaled(factor, row, to.subspan(at_entry, n),
               rest.empty() ? rest : rest.subspan(at_entry, n));
    at_entry += n;
  };
  add(slope, x);
  for (std::size_t i = 0; i < d; ++i) {
    const double factor = weight * x[i];
    add(factor, x.subspan(i, 1));
    add(kSqrtTwo * factor, x.subspan(i + 1));
  }
  return loss_.value(margin, y);
}

double NoisyNewton::admit(std::optional<double> label, bool) {
  if (!label) throw std::invalid_argument("curvature needs features and labels");
  return add_leaf(decision_, own_row(), *label, batch_.sum(), batch_.rest(), clipped_);
}

void NoisyNewton::leaf(std::span<const double> at, std::span<const double> features, double label,
                       std::span<double> out) const {
  std::vector<double> scratch(decision_.size());  // several threads may call this
  std::ranges::fill(out, 0.0);
  add_leaf(at, features, label, out, {}, scratch);
}

void NoisyNewton::write_state(Archive& archive) const {
  archive.word(round());
  archive.reals(decision_);
  rule_->write(archive);
  batch_.write_sum(archive);
  batch_.write_rest(archive);
  sum_.write(archive);
}

void NoisyNewton::read_state(ArchiveReader& archive) {
  const std::uint64_t round = read_round(archive);
  archive.reals(decision_);
  rule_->read(archive);
  batch_.read_sum(archive);
  batch_.read_rest(archive, round);
  sum_.read(archive);
  check_state();
}

}  // namespace dpoco::oco
