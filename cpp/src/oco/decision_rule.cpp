#include "dpoco/oco/decision_rule.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

void DecisionRule::check(std::span<const double> decision) {
  constexpr double kTolerance = 1e-6;
  if (!domain_->contains(decision, kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
}

ProjectedStep::ProjectedStep(std::shared_ptr<const domains::Domain> domain, double step_size)
    : DecisionRule(std::move(domain)),
      step_size_(step_size),
      center_(static_cast<std::size_t>(dimension())),
      target_(center_) {
  if (!(step_size_ > 0.0)) throw std::invalid_argument("step_size must be positive");
  domain_->center(center_);
}

void ProjectedStep::advance(const mechanisms::Released& released, std::span<double> decision) {
  const std::span<const double> sum = released.values();
  for (std::size_t i = 0; i < target_.size(); ++i) target_[i] = center_[i] - step_size_ * sum[i];
  domain_->project(target_, decision);
}

RidgeRule::RidgeRule(std::shared_ptr<const domains::Domain> domain, std::uint64_t releases,
                     RidgeSettings settings)
    : DecisionRule(std::move(domain)),
      settings_(std::move(settings)),
      leader_(domain_, settings_.domain_radius) {
  if (!(settings_.vector_scale > 0.0)) {
    throw std::invalid_argument("vector_scale must be positive");
  }
  const auto positive = [](double ridge) { return ridge > 0.0; };
  if (settings_.forgetting) {
    forgetting_.emplace(domain_, settings_.domain_radius, settings_.vector_scale,
                        *settings_.forgetting);
    const auto d = static_cast<std::size_t>(dimension());
    before_.assign(simd::padded(packed_size(d) + d + (has_loss() ? 1 : 0)), 0.0);
    increment_ = before_;
  } else if (settings_.ridges.size() < releases ||
             !std::all_of(settings_.ridges.begin(), settings_.ridges.end(), positive)) {
    throw std::invalid_argument("every push needs a positive ridge");
  }
  if (!(settings_.shrinkage >= 0.0)) throw std::invalid_argument("shrinkage must be at least 0");
  const auto share = [](double kept) { return kept >= 0.0 && kept <= 1.0; };
  const ReleasedLoss& loss = settings_.loss;
  if (!(loss.weight >= 0.0) || loss.kept.empty() ||
      !std::all_of(loss.kept.begin(), loss.kept.end(), share)) {
    throw std::invalid_argument("losses must have a weight, and past ones count at most 1");
  }
}

void RidgeRule::add_loss(const mechanisms::Released& released) {
  const auto d = static_cast<std::size_t>(dimension());
  const double sum = released.values()[packed_size(d) + d];
  const ReleasedLoss& loss = settings_.loss;
  const double kept = loss.kept[std::min<std::uint64_t>(released.number(), loss.kept.size()) - 1];
  released_loss_ = kept * released_loss_ + (sum - loss_before_) / loss.weight;
  loss_before_ = sum;
}

void RidgeRule::advance(const mechanisms::Released& released, std::span<double> decision) {
  if (has_loss()) add_loss(released);
  const std::span<const double> sum = released.values();
  if (forgetting_) {
    for (std::size_t i = 0; i < increment_.size(); ++i) increment_[i] = sum[i] - before_[i];
    std::ranges::copy(sum.first(before_.size()), before_.begin());
    forgetting_->advance(increment_, decision);
    return;
  }
  const double ridge = settings_.ridges[released.number() - 1];
  leader_.minimize(sum, settings_.vector_scale, ridge, decision);
  const double variance = settings_.shrinkage * ridge * ridge;
  if (variance > 0.0) leader_.shrink(variance, decision);
}

void RidgeRule::write(Archive& archive) const {
  if (has_loss()) archive.reals(std::span(&released_loss_, 1), std::span(&loss_before_, 1));
  if (!forgetting_) return;
  archive.reals(before_);
  forgetting_->write(archive);
}

void RidgeRule::read(ArchiveReader& archive) {
  if (has_loss()) archive.reals(std::span(&released_loss_, 1), std::span(&loss_before_, 1));
  if (!forgetting_) return;
  archive.reals(before_);
  forgetting_->read(archive);
}

}  // namespace dpoco::oco
