#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/mechanisms/released.hpp"
#include "dpoco/oco/forgetting_leader.hpp"
#include "dpoco/oco/quadratic_leader.hpp"

namespace dpoco::oco {

// How decisions follow from the releases of a private sum. A rule has nothing but these and public
// settings: it is post-processing, and no guarantee rests on what it computes.
class DecisionRule : public mechanisms::PostProcessing {
 public:
  virtual ~DecisionRule() = default;

  Index dimension() const noexcept { return domain_->dimension(); }
  // The decision before the first release.
  void begin(std::span<double> decision) const { domain_->center(decision); }
  // Replaces the decision by the one after a release.
  virtual void advance(const mechanisms::Released& released, std::span<double> decision) = 0;

  virtual void write(Archive&) const {}
  virtual void read(ArchiveReader&) {}
  // Throws StateError unless the rule that was read, and this decision, are possible.
  virtual void check(std::span<const double> decision);

 protected:
  explicit DecisionRule(std::shared_ptr<const domains::Domain> domain)
      : domain_(std::move(domain)) {}

  std::shared_ptr<const domains::Domain> domain_;
};

// The projection of c - eta G onto the domain: c its centre, G the released sum of gradients. O(d),
// and one projection.
class ProjectedStep final : public DecisionRule {
 public:
  // Throws std::invalid_argument unless the step size, eta, is positive.
  ProjectedStep(std::shared_ptr<const domains::Domain> domain, double step_size);

  void advance(const mechanisms::Released& released, std::span<double> decision) override;

 private:
  double step_size_;
  std::vector<double> center_;
  std::vector<double> target_;  // what is projected
};

// The running loss in a released sum: its last entry holds `weight` times the losses of all rounds.
struct ReleasedLoss {
  double weight = 0.0;             // 0: none is released
  std::vector<double> kept = {1};  // what past losses count behind every release; the last: later
};

struct RidgeSettings {
  double vector_scale = 1.0;        // factor on y x in the sum
  double domain_radius = 1.0;       // largest distance from the centre
  std::vector<double> ridges = {};  // added to the matrix behind every release
  double shrinkage = 0.0;           // variance of a coordinate of the released sum of y x / ridge^2
  // Damped sums of the increments in place of ridges and shrinkage.
  std::optional<ForgettingSettings> forgetting = std::nullopt;
  ReleasedLoss loss = {};
};

// Ridge regression on released sums of (x x', y x), or on damped sums of their increments:
// docs/privacy/noisy_ftrl.md. O(d^3).
class RidgeRule final : public DecisionRule {
 public:
  // releases: how many the sum has. Throws std::invalid_argument.
  RidgeRule(std::shared_ptr<const domains::Domain> domain, std::uint64_t releases,
            RidgeSettings settings);

  // The choice among damped sums; null without one.
  const ForgettingLeader* forgetting() const noexcept {
    return forgetting_ ? &*forgetting_ : nullptr;
  }
  // Noisy sum of the losses of all rounds released, the past damped; 0 where there is none.
  double released_loss() const noexcept { return released_loss_; }

  void advance(const mechanisms::Released& released, std::span<double> decision) override;
  void write(Archive& archive) const override;
  void read(ArchiveReader& archive) override;

 private:
  bool has_loss() const noexcept { return settings_.loss.weight > 0.0; }
  void add_loss(const mechanisms::Released& released);

  RidgeSettings settings_;
  QuadraticLeader leader_;
  std::optional<ForgettingLeader> forgetting_;
  std::vector<double> before_;     // the sum released before, of which increments are differences
  std::vector<double> increment_;  // with noise
  double released_loss_ = 0.0;
  double loss_before_ = 0.0;  // the entry of the sum released before
};

}  // namespace dpoco::oco
