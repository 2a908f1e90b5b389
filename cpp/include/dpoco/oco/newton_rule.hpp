#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/oco/decision_rule.hpp"

namespace dpoco::oco {

struct NewtonSettings {
  double curvature_weight = 1.0;  // factor on matrices in the sum
  double step_size = 1.0;         // eta: the metric begins as I / eta
  double step_share = 1.0;        // share of the curvature that enters the metric
  double shrinkage = 1.0;         // shrinkage towards the centre, in units of the noise
  // Noise deviation of an entry of the sum at each release; with forgetting, of the damped sum.
  std::vector<double> deviations;
  // Weight of past curvatures at each release. If empty, all keep weight 1, and the metric never
  // decreases. The last entries of both vectors also hold for all later releases.
  std::vector<double> kept = {};
};

// Newton steps on released sums of gradients and curvatures. The decision moves by the gradient of
// a batch in a metric that grows with the released curvature that exceeds the noise. O(d^3).
class NewtonRule final : public DecisionRule {
 public:
  // releases: the number of releases of the sum. Throws std::invalid_argument.
  NewtonRule(std::shared_ptr<const domains::Domain> domain, std::uint64_t releases,
             NewtonSettings settings);

  // The metric of the last step.
  const Eigen::MatrixXd& metric() const noexcept { return metric_; }

  void advance(const mechanisms::Released& released, std::span<double> decision) override;
  void write(Archive& archive) const override;
  void read(ArchiveReader& archive) override;
  void check(std::span<const double> decision) override;

 private:
  bool forgets() const noexcept { return !settings_.kept.empty(); }
  void grow_metric(std::span<const double> matrix, double deviation);
  void move_into_domain(const Vector& target);
  void project_onto_domain(const Vector& target);
  void show(double deviation, std::span<double> decision) const;

  double ball_radius_;  // see `euclidean_radius`
  NewtonSettings settings_;
  Vector center_;
  Vector point_;            // the decision before shrinkage, minus the centre
  Vector gradients_;        // released sum up to the last batch
  Vector curvatures_;       // the same, packed, with forgetting
  Vector damped_;           // their damped sum
  Eigen::MatrixXd metric_;  // A
  Eigenvalues axes_;        // of the metric
};

}  // namespace dpoco::oco
