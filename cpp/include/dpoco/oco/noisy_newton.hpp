#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/batch_learner.hpp"

namespace dpoco::oco {

struct NoisyNewtonSettings {
  std::uint64_t horizon = 0;      // rounds
  Batches batches;                // rounds per decision
  double scalar_bound = 0.0;      // |dl/dz| <= this
  double curvature_bound = 0.0;   // d^2 l/dz^2 is clamped to [0, this]
  double curvature_weight = 1.0;  // factor on matrices in the sum
};

// Newton steps on private sums of gradients and curvatures. Only the sum reads data:
// docs/privacy/noisy_newton.md. O(d^2) per round, O(d^3) per batch.
class NoisyNewton final : public BatchLearner {
 public:
  // The sum has d + d (d + 1) / 2 entries: a gradient, then the upper triangle of a matrix, off the
  // diagonal times sqrt(2).
  NoisyNewton(losses::GlmLoss loss, losses::RecordClipper clipper, NoisyNewtonSettings settings,
              mechanisms::ContinualSum sum, std::unique_ptr<DecisionRule> rule);

  // The vector that a record adds to the sum at a given decision: see `NoisyFtrl::leaf`.
  void leaf(std::span<const double> at, std::span<const double> features, double label,
            std::span<double> out) const;

 protected:
  double admit(std::optional<double> label, bool wants_loss) override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  double add_leaf(std::span<const double> at, std::span<const double> features, double label,
                  std::span<double> to, std::span<double> rest, std::span<double> clipped) const;

  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  NoisyNewtonSettings settings_;
  std::vector<double> clipped_;  // features of a record
};

}  // namespace dpoco::oco
