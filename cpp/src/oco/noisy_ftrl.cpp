#include "dpoco/oco/noisy_ftrl.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

// The products of clipped features carry a few more rounding errors than the features themselves.
// This factor keeps the exact norm of the statistics within the declared bound.
constexpr double kShrink = 1.0 - 16.0 * std::numeric_limits<double>::epsilon();

}  // namespace

std::size_t NoisyFtrl::sum_dimension(std::size_t dimension, Statistics statistics) noexcept {
  return statistics == Statistics::gradient ? dimension : packed_size(dimension) + dimension;
}

NoisyFtrl::NoisyFtrl(losses::GlmLoss loss, losses::RecordClipper clipper,
                     NoisyFtrlSettings settings, mechanisms::ContinualSum sum,
                     std::unique_ptr<DecisionRule> rule)
    : BatchLearner(settings.horizon, settings.batches, std::move(sum), std::move(rule)),
      loss_(loss),
      clipper_(std::move(clipper)),
      settings_(settings),
      clipped_(decision_) {
  const bool with_loss = settings_.running_loss.weight > 0.0;
  const std::size_t own = sum_dimension(decision_.size(), settings_.statistics);
  if (entries() != own + (with_loss ? 1 : 0)) {
    throw std::invalid_argument("the sum must have the dimension of the statistics");
  }
  if (is_quadratic() && loss_.kind != losses::GlmKind::squared) {
    throw std::invalid_argument("quadratic statistics describe the squared loss only");
  }
  if (!is_quadratic() && with_loss) throw std::invalid_argument("gradients publish no loss");
}

double NoisyFtrl::add_leaf(std::span<const double> at, std::span<const double> features,
                           double label, std::span<double> to, std::span<double> rest,
                           std::span<double> clipped) const {
  assert(to.size() == entries());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * simd::dot(at, features);
  if (is_quadratic()) {
    for (std::size_t i = 0; i < features.size(); ++i) {
      clipped[i] = (multiplier * features[i]) * kShrink;
    }
    std::size_t i = 0;
    const auto add = [&](double entry) {
      rest.empty() ? void(to[i] += entry) : add_compensated(entry, to[i], rest[i]);
      ++i;
    };
    add_quadratic(clipped, y, settings_.vector_scale, add);
    const double loss = loss_.value(margin, y);
    if (const RunningLoss& own = settings_.running_loss; own.weight > 0.0) {
      // The products of raw features may overflow and cancel. A NaN counts as the largest loss.
      add(own.weight * (loss < own.largest ? std::max(loss, 0.0) : own.largest));
    }
    return loss;
  }
  const double bound = settings_.scalar_bound;
  const double slope = loss_.derivative(margin, y);
  const double scalar = std::isfinite(slope) ? std::clamp(slope, -bound, bound) : 0.0;
  const double factor = scalar * multiplier;
  // A subnormal factor is too coarse: rounding up could carry the leaf over its bound.
  if (std::fabs(factor) >= std::numeric_limits<double>::min()) {
    add_scaled(factor, features, to, rest);
  }
  return loss_.value(margin, y);
}

void NoisyFtrl::clip(std::span<double> row) const {
  const double multiplier = clipper_.multiplier(row);
  if (multiplier == 0.0) {
    std::ranges::fill(row, 0.0);  // it may hold a NaN
  } else if (multiplier != 1.0) {
    for (double& each : row) each *= multiplier;
  }
}

void NoisyFtrl::refuse_gradients() const {
  if (is_quadratic()) throw std::invalid_argument("quadratic statistics need features and labels");
}

double NoisyFtrl::admit(std::optional<double> label, bool) {
  const std::span<double> record = own_row();
  if (label) return add_leaf(decision_, record, *label, batch_.sum(), batch_.rest(), clipped_);
  refuse_gradients();
  clip(record);
  add_scaled(1.0, record, batch_.sum(), batch_.rest());
  return simd::dot(decision_, record);
}

void NoisyFtrl::leaf(std::span<const double> at, std::span<const double> features, double label,
                     std::span<double> out) const {
  std::vector<double> scratch(decision_.size());  // several threads may call this
  std::ranges::fill(out, 0.0);
  add_leaf(at, features, label, out, {}, scratch);
}

void NoisyFtrl::observe_batch(std::uint64_t decided, std::span<const double> total,
                              std::uint64_t rounds) {
  if (!is_quadratic())
    throw std::invalid_argument("only quadratic statistics are added up elsewhere");
  BatchLearner::observe_batch(decided, total, rounds);
}

void NoisyFtrl::play(std::span<const double> features, std::span<const double> labels,
                     std::span<double> losses, std::span<double> decisions,
                     std::span<std::uint8_t> changed) {
  if (labels.empty()) refuse_gradients();
  if (settings_.batches.single()) sum_.expect(features.size() / decision_.size());
  RecordLearner::play(features, labels, losses, decisions, changed);
}

void NoisyFtrl::write_state(Archive& archive) const {
  archive.word(round());
  archive.reals(decision_);
  batch_.write_sum(archive);
  batch_.write_rest(archive);
  sum_.write(archive);
  rule_->write(archive);
}

void NoisyFtrl::read_state(ArchiveReader& archive) {
  const std::uint64_t round = read_round(archive);
  archive.reals(decision_);
  batch_.read_sum(archive);
  batch_.read_rest(archive, round);
  sum_.read(archive);
  rule_->read(archive);
  check_state();
}

}  // namespace dpoco::oco
