#include "dpoco/oco/noisy_ftrl.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

// Products of the clipped features round a few times more than the features themselves; this keeps
// the exact norm of the statistics inside the declared one.
constexpr double kShrink = 1.0 - 16.0 * std::numeric_limits<double>::epsilon();

void add_scaled(double factor, std::span<const double> x, std::span<double> to,
                std::span<double> rest) {
  const simd::Kernels& k = simd::kernels();
  assert(to.size() >= x.size() && (rest.empty() || rest.size() == to.size()));
  if (rest.empty()) {
    k.axpy(factor, x.data(), x.size(), to.data());
  } else {
    k.accumulate(factor, x.data(), x.size(), to.data(), rest.data());
  }
}

}  // namespace

std::size_t NoisyFtrl::sum_dimension(std::size_t dimension, Statistics statistics) noexcept {
  return statistics == Statistics::gradient ? dimension : packed_size(dimension) + dimension;
}

NoisyFtrl::NoisyFtrl(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
                     losses::RecordClipper clipper, NoisyFtrlSettings settings,
                     mechanisms::ContinualSum sum)
    : BatchLearner(domain->dimension(), settings.horizon, settings.batches, std::move(sum)),
      domain_(std::move(domain)),
      loss_(loss),
      clipper_(std::move(clipper)),
      settings_(std::move(settings)),
      clipped_(decision_),
      released_(batch_.values()) {
  const std::size_t own = sum_dimension(decision_.size(), settings_.statistics);
  if (entries() != own + (publishes_loss() ? 1 : 0)) {
    throw std::invalid_argument("the sum must have the dimension of the statistics");
  }
  if (settings_.statistics == Statistics::quadratic) {
    if (loss_.kind != losses::GlmKind::squared) {
      throw std::invalid_argument("quadratic statistics describe the squared loss only");
    }
    if (!(settings_.vector_scale > 0.0)) {
      throw std::invalid_argument("vector_scale must be positive");
    }
    const auto positive = [](double ridge) { return ridge > 0.0; };
    if (settings_.forgetting) {
      forgetting_.emplace(domain_, settings_.domain_radius, settings_.vector_scale,
                          *settings_.forgetting);
      before_.assign(released_.size(), 0.0);
      increment_ = before_;
    } else if (settings_.ridges.size() < sum_.horizon() ||
               !std::all_of(settings_.ridges.begin(), settings_.ridges.end(), positive)) {
      throw std::invalid_argument("every push needs a positive ridge");
    }
    if (!(settings_.shrinkage >= 0.0)) throw std::invalid_argument("shrinkage must be at least 0");
    leader_.emplace(domain_, settings_.domain_radius);
    const auto share = [](double kept) { return kept >= 0.0 && kept <= 1.0; };
    const RunningLoss& published = settings_.running_loss;
    if (!(published.weight >= 0.0) || published.kept.empty() ||
        !std::all_of(published.kept.begin(), published.kept.end(), share)) {
      throw std::invalid_argument("losses must have a weight, and past ones count at most 1");
    }
  } else if (settings_.forgetting || publishes_loss()) {
    throw std::invalid_argument("gradients are not forgotten, and publish no loss");
  } else if (!(settings_.step_size > 0.0)) {
    throw std::invalid_argument("step_size must be positive");
  }
  domain_->center(decision_);
  center_ = decision_;
  target_ = decision_;
  previous_ = decision_;
}

double NoisyFtrl::add_leaf(std::span<const double> at, std::span<const double> features,
                           double label, std::span<double> to, std::span<double> rest,
                           std::span<double> clipped) const {
  assert(to.size() == entries());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * simd::dot(at, features);
  if (leader_) {
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
    if (publishes_loss()) {
      const RunningLoss& own = settings_.running_loss;
      // The products of raw features may overflow and cancel: a NaN counts as the largest loss.
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
  if (leader_) throw std::invalid_argument("quadratic statistics need features and labels");
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

void NoisyFtrl::publish_loss(double released) {
  const RunningLoss& own = settings_.running_loss;
  const double kept = own.kept[std::min<std::uint64_t>(sum_.round(), own.kept.size()) - 1];
  released_loss_ = kept * released_loss_ + (released - loss_before_) / own.weight;
  loss_before_ = released;
}

bool NoisyFtrl::lead(std::span<const double> released) {
  previous_ = decision_;
  if (forgetting_) {
    for (std::size_t i = 0; i < increment_.size(); ++i) increment_[i] = released[i] - before_[i];
    std::ranges::copy(released.first(before_.size()), before_.begin());
    forgetting_->advance(increment_, decision_);
  } else if (leader_) {
    const double ridge = settings_.ridges[sum_.round() - 1];
    leader_->minimize(released.first(entries()), settings_.vector_scale, ridge, decision_);
    const double variance = settings_.shrinkage * ridge * ridge;
    if (variance > 0.0) leader_->shrink(variance, decision_);
  } else {
    const double eta = settings_.step_size;
    for (std::size_t i = 0; i < target_.size(); ++i) target_[i] = center_[i] - eta * released[i];
    domain_->project(target_, decision_);
  }
  return previous_ != decision_;  // by value: a projection may turn 0 into -0
}

void NoisyFtrl::observe_batch(std::uint64_t decided, std::span<const double> total,
                              std::uint64_t rounds) {
  if (!leader_) throw std::invalid_argument("only quadratic statistics are added up elsewhere");
  BatchLearner::observe_batch(decided, total, rounds);
}

bool NoisyFtrl::close_round() {
  if (!batch_.close_round()) return false;
  if (sum_.round() == sum_.horizon()) {  // with the last round: nobody sees its sum
    batch_.clear();
    return false;
  }
  sum_.add_one(1.0, batch_.values(), released_);
  batch_.clear();
  if (publishes_loss()) publish_loss(released_[entries() - 1]);
  return lead(released_);
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
  if (publishes_loss()) archive.reals(std::span(&released_loss_, 1), std::span(&loss_before_, 1));
  if (!forgetting_) return;
  archive.reals(before_);
  forgetting_->write(archive);
}

void NoisyFtrl::read_state(ArchiveReader& archive) {
  const std::uint64_t round = read_round(archive);
  archive.reals(decision_);
  batch_.read_sum(archive);
  batch_.read_rest(archive, round);
  sum_.read(archive);
  if (publishes_loss()) archive.reals(std::span(&released_loss_, 1), std::span(&loss_before_, 1));
  if (forgetting_) {
    archive.reals(before_);
    forgetting_->read(archive);
  }
  constexpr double kTolerance = 1e-6;
  if (sum_.round() != std::min(batch_.ended(), sum_.horizon()))
    throw StateError("state holds an impossible round");
  if (!domain_->contains(decision_, kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::oco
