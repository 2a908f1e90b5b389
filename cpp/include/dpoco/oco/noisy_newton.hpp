#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/batch_learner.hpp"

namespace dpoco::oco {

struct NoisyNewtonSettings {
  std::uint64_t horizon = 0;      // rounds
  Batches batches;                // rounds per decision
  double scalar_bound = 0.0;      // |dl/dz| <= this
  double curvature_bound = 0.0;   // d^2 l/dz^2 is kept in [0, this]
  double curvature_weight = 1.0;  // factor on matrices in the sum
  double step_size = 1.0;         // eta: the metric begins as I / eta
  double step_share = 1.0;        // of the curvature that enters the metric
  double shrinkage = 1.0;         // of decisions towards the centre, in units of the noise
  // Of every entry of a released sum, for each of them; of one that forgets, of the damped sum.
  std::vector<double> deviations;
  // Weight of past curvatures after every push; empty: all of them, in a metric that never falls.
  // The last entries of both also hold for all later pushes.
  std::vector<double> kept = {};
};

// Newton steps on private sums of gradients and curvatures: after a batch the decision moves by its
// released gradient in a metric that grows with what released curvature stands out of the noise.
// Only the sum touches data: docs/privacy/noisy_newton.md. O(d^2) a round, O(d^3) a batch.
class NoisyNewton final : public BatchLearner {
 public:
  // The sum has a push for every deviation, and d + d (d + 1) / 2 entries: a gradient, then the
  // upper triangle of a matrix, off the diagonal times sqrt(2).
  NoisyNewton(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
              losses::RecordClipper clipper, NoisyNewtonSettings settings,
              mechanisms::ContinualSum sum);

  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  const NoisyNewtonSettings& settings() const noexcept { return settings_; }

  // The metric of the last step: a function of what was released.
  const Eigen::MatrixXd& metric() const noexcept { return metric_; }

  // The vector that a record adds to the sum at a given decision: see `NoisyFtrl::leaf`.
  void leaf(std::span<const double> at, std::span<const double> features, double label,
            std::span<double> out) const;

 protected:
  double admit(std::optional<double> label, bool wants_loss) override;
  bool close_round() override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  double add_leaf(std::span<const double> at, std::span<const double> features, double label,
                  std::span<double> to, std::span<double> rest, std::span<double> clipped) const;
  void lead(std::size_t push);  // all from here on sees released numbers only
  void grow_metric(double deviation);
  bool forgets() const noexcept { return !settings_.kept.empty(); }
  void move_into_domain(const Vector& target);
  void project_onto_domain(const Vector& target);
  void show(double deviation);

  std::shared_ptr<const domains::Domain> domain_;
  double ball_radius_;  // see `euclidean_radius`
  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  NoisyNewtonSettings settings_;
  Vector center_;
  Vector point_;            // the decision before it is shrunk, less the centre
  Vector gradients_;        // released, up to the last batch
  Vector curvatures_;       // likewise, packed, if they are forgotten
  Vector damped_;           // their damped sum
  Eigen::MatrixXd metric_;  // A
  Eigenvalues axes_;        // of the metric
  std::vector<double> released_;
  std::vector<double> previous_;  // decision before the last update
  std::vector<double> clipped_;   // a record's features
};

}  // namespace dpoco::oco
