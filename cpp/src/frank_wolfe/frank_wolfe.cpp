#include "dpoco/frank_wolfe/frank_wolfe.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

FrankWolfe::FrankWolfe(std::shared_ptr<const domains::Domain> domain, LeafRule leaves,
                       FrankWolfeSettings settings, std::unique_ptr<VertexRule> rule,
                       std::span<const double> start)
    : RecordLearner(domain->dimension(), settings.horizon),
      domain_(std::move(domain)),
      leaves_(std::move(leaves)),
      settings_(settings),
      rule_(std::move(rule)),
      batch_(decision_.size(), {.first = settings.batch}),
      vertex_(simd::padded(decision_.size()), 0.0) {
  if (!(settings_.step_scale > 0.0)) throw std::invalid_argument("step_scale must be positive");
  if (rule_->dimension() != dimension() || leaves_.dimension() != dimension()) {
    throw std::invalid_argument("the leaves and their rule must have the domain's dimension");
  }
  assert(start.size() == decision_.size());
  decision_.assign(start.begin(), start.end());
  decision_.resize(vertex_.size(), 0.0);
  previous_ = decision_;
}

void FrankWolfe::previous_decision(std::span<double> out) const {
  assert(std::ssize(out) == dimension());
  const auto entry = enter();
  std::copy_n(previous_.begin(), out.size(), out.begin());
}

double FrankWolfe::weight() const noexcept {
  return static_cast<double>(step_) + (settings_.published_weights ? 1.0 : 0.0);
}

void FrankWolfe::leaf(std::span<const double> at, std::span<const double> previous,
                      std::span<const double> features, double label, std::span<double> out) const {
  assert(std::ssize(features) == dimension() && out.size() == features.size());
  const double factor = leaves_.of(weight(), at, previous, features, label).factor;
  std::ranges::fill(out, 0.0);
  if (factor != 0.0) simd::kernels().axpy(factor, features.data(), out.size(), out.data());
}

double FrankWolfe::admit(std::optional<double> label, bool) {
  const LeafRule::Leaf leaf = label ? leaves_.of(weight(), decision_, previous_, row_, *label)
                                    : leaves_.of_gradient(decision_, row_);
  take(leaf.factor);
  return leaf.loss;
}

void FrankWolfe::take(double factor) {
  if (batch_.batches().single()) {
    factor_ = factor;
    if (factor == 0.0) std::ranges::fill(row_, 0.0);  // it may hold a NaN
  } else if (factor != 0.0) {
    const std::span<double> sum = batch_.sum();
    simd::kernels().accumulate(factor, row_.data(), sum.size(), sum.data(), batch_.rest().data());
  }
}

void FrankWolfe::observe_gradients(std::uint64_t decided, std::span<const double> at_decision,
                                   std::span<const double> at_previous) {
  play_turn(decided, [&] {
    const double w = weight();
    // Clips the leaf, not the two gradients. Clipping each gradient would break the smoothness that
    // bounds their weighted difference.
    assert(std::ssize(at_decision) == dimension() && at_previous.size() == at_decision.size());
    for (std::size_t i = 0; i < at_decision.size(); ++i) {  // the row is padded
      row_[i] = w * at_decision[i] - (w - 1.0) * at_previous[i];
    }
    admit(std::nullopt, false);
  });
}

void FrankWolfe::skip(std::uint64_t decided) {
  play_turn(decided, [this] { take(0.0); });
}

bool FrankWolfe::close_round() {
  if (!batch_.close_round()) return false;
  if (!batch_.batches().single()) {
    std::ranges::copy(batch_.values(), row_.begin());
    factor_ = 1.0;
    batch_.clear();
  }
  rule_->next(step_, static_cast<double>(settings_.batch) * weight(), factor_, row_, vertex_);
  const double s = settings_.step_scale;
  const double eta = s / (static_cast<double>(step_) + s);
  previous_.swap(decision_);
  ++step_;
  return simd::kernels().approach(eta, previous_.data(), vertex_.data(), vertex_.size(),
                                  decision_.data());
}

void FrankWolfe::play(std::span<const double> features, std::span<const double> labels,
                      std::span<double> losses, std::span<double> decisions,
                      std::span<std::uint8_t> changed) {
  const std::uint64_t rounds = features.size() / static_cast<std::size_t>(dimension());
  rule_->expect((round() + rounds) / settings_.batch - round() / settings_.batch);
  RecordLearner::play(features, labels, losses, decisions, changed);
}

void FrankWolfe::write_state(Archive& archive) const {
  archive.word(round());
  const auto d = static_cast<std::size_t>(dimension());
  archive.reals(std::span(decision_).first(d), std::span(previous_).first(d));
  batch_.write_sum(archive);
  rule_->write_sum(archive);
  batch_.write_rest(archive);
  rule_->write(archive);
}

void FrankWolfe::read_state(ArchiveReader& archive) {
  step_ = 1 + read_round(archive) / settings_.batch;
  const auto d = static_cast<std::size_t>(dimension());
  archive.reals(std::span(decision_).first(d), std::span(previous_).first(d));
  batch_.read_sum(archive);
  rule_->read_sum(archive);
  batch_.read_rest(archive, round());
  rule_->read(archive, step_ - 1);
  constexpr double kTolerance = 1e-6;
  if (!domain_->contains(std::span(decision_).first(d), kTolerance) ||
      !domain_->contains(std::span(previous_).first(d), kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::frank_wolfe
