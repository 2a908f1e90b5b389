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

// Computes decisions from the releases of a private sum. A rule has only these and public settings,
// so it is post-processing, and no guarantee depends on its result.
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
  // Throws StateError unless the restored rule and this decision are possible.
  virtual void check(std::span<const double> decision);

 protected:
  explicit DecisionRule(std::shared_ptr<const domains::Domain> domain)
      : domain_(std::move(domain)) {}

  std::shared_ptr<const domains::Domain> domain_;
};

// The projection of c - eta G onto the domain, with its centre c and the released sum of gradients
// G. O(d), and one projection.
class ProjectedStep final : public DecisionRule {
 public:
  // Throws std::invalid_argument unless the step size, eta, is positive.
  ProjectedStep(std::shared_ptr<const domains::Domain> domain, double step_size);

  void advance(const mechanisms::Released& released, std::span<double> decision) override;

 private:
  double step_size_;
  std::vector<double> center_;
  std::vector<double> target_;  // the point before its projection
};

// The running loss in a released sum. Its last entry has `weight` times the losses of all rounds.
struct ReleasedLoss {
  double weight = 0.0;  // 0: none is released
  // Weight of past losses at each release; the last entry also holds for all later releases.
  std::vector<double> kept = {1};
};

struct RidgeSettings {
  double vector_scale = 1.0;        // factor on y x in the sum
  double domain_radius = 1.0;       // largest distance from the centre
  std::vector<double> ridges = {};  // added to the matrix of each release
  double shrinkage = 0.0;           // variance of a coordinate of the released sum of y x / ridge^2
  // Damped sums of the increments, instead of ridges and shrinkage.
  std::optional<ForgettingSettings> forgetting = std::nullopt;
  ReleasedLoss loss = {};
};

// Ridge regression on released sums of (x x', y x), or on damped sums of their increments:
// docs/privacy/noisy_ftrl.md. O(d^3).
class RidgeRule final : public DecisionRule {
 public:
  // releases: the number of releases of the sum. Throws std::invalid_argument.
  RidgeRule(std::shared_ptr<const domains::Domain> domain, std::uint64_t releases,
            RidgeSettings settings);

  // The choice among damped sums; null if there is none.
  const ForgettingLeader* forgetting() const noexcept {
    return forgetting_ ? &*forgetting_ : nullptr;
  }
  // Noisy sum of the losses of all released rounds, with damped past; 0 if there is none.
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
  std::vector<double> before_;     // the sum released before; increments are differences from it
  std::vector<double> increment_;  // increment of the sum, with noise
  double released_loss_ = 0.0;
  double loss_before_ = 0.0;  // the entry of the sum released before
};

}  // namespace dpoco::oco
