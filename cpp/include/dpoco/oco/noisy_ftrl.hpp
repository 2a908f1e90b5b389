#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/batch_learner.hpp"

namespace dpoco::oco {

// A round's summand in the private sum: the gradient at its decision or, for the squared loss, (x
// x', y x), from which the whole loss follows.
enum class Statistics { gradient, quadratic };

// A published running loss: the last entry of a round's summand is `weight` times its loss at its
// decision, clipped to [0, largest]. A weight of 0 means none.
struct RunningLoss {
  double weight = 0.0;
  double largest = 0.0;
};

struct NoisyFtrlSettings {
  std::uint64_t horizon = 0;  // rounds
  Batches batches;            // rounds per decision
  Statistics statistics = Statistics::gradient;
  double scalar_bound = 0.0;  // of gradients: |dl/dz| <= this, for generalised linear losses
  double vector_scale = 1.0;  // of quadratic statistics: factor on y x
  RunningLoss running_loss = {};
};

// Follow the regularised leader on privately summed gradients. With batches of one round, the
// decision after t rounds is the projection of c - eta G_t, with the domain's centre c and the
// noisy sum G_t of the clipped gradients; or ridge regression on noisy quadratic statistics. Only
// the sum reads data, so the decisions are post-processing of it: docs/privacy/noisy_ftrl.md.
// Gradients: O(d) per round plus one projection. Quadratic: O(d^2) per round and O(d^3) per
// decision.
class NoisyFtrl final : public BatchLearner {
 public:
  // The sum's horizon is the number of batches that end, or that end before the last round. Its
  // dimension is sum_dimension(d, statistics), and one more with a running loss.
  NoisyFtrl(losses::GlmLoss loss, losses::RecordClipper clipper, NoisyFtrlSettings settings,
            mechanisms::ContinualSum sum, std::unique_ptr<DecisionRule> rule);

  static std::size_t sum_dimension(std::size_t dimension, Statistics statistics) noexcept;

  // The vector that a record adds to the sum at a decision, sum().dimension() entries. Audits
  // compare it between neighbouring streams. It reads private data and is not a release.
  void leaf(std::span<const double> at, std::span<const double> features, double label,
            std::span<double> out) const;

  // Throws std::invalid_argument if the statistics are gradients.
  void observe_batch(std::uint64_t decided, std::span<const double> total, std::uint64_t rounds);

 protected:
  double admit(std::optional<double> label, bool wants_loss) override;
  void play(std::span<const double> features, std::span<const double> labels,
            std::span<double> losses, std::span<double> decisions,
            std::span<std::uint8_t> changed) override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  // Adds the record's leaf at the given decision to `to` and returns the loss there. `rest` has the
  // compensation for a sum of several leaves; it is empty if `to` was zero before. Writes the
  // record's features to `clipped`.
  double add_leaf(std::span<const double> at, std::span<const double> features, double label,
                  std::span<double> to, std::span<double> rest, std::span<double> clipped) const;
  void clip(std::span<double> row) const;  // in place
  void refuse_gradients() const;
  bool is_quadratic() const noexcept { return settings_.statistics == Statistics::quadratic; }

  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  NoisyFtrlSettings settings_;
  std::vector<double> clipped_;  // features of a record
};

}  // namespace dpoco::oco
