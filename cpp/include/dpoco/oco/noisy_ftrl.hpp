#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/batch_learner.hpp"
#include "dpoco/oco/forgetting_leader.hpp"
#include "dpoco/oco/quadratic_leader.hpp"

namespace dpoco::oco {

// Summand of a round in the private sum: the gradient at its decision, or, for the squared loss,
// (x x', y x), from which the whole loss follows.
enum class Statistics { gradient, quadratic };

// A published running loss: `weight` times a round's loss at its decision, clipped to [0, largest],
// is the last entry of what the round adds to the sum. A weight of 0 is none.
struct RunningLoss {
  double weight = 0.0;
  double largest = 0.0;
  std::vector<double> kept = {1.0};  // what past losses count behind every push; the last: later
};

struct NoisyFtrlSettings {
  std::uint64_t horizon = 0;  // rounds
  Batches batches;            // rounds per decision
  Statistics statistics = Statistics::gradient;
  // Of gradients.
  double step_size = 1.0;     // eta
  double scalar_bound = 0.0;  // |dl/dz| <= this, for generalised linear losses
  // Of quadratic statistics.
  double vector_scale = 1.0;        // factor on y x
  double domain_radius = 1.0;       // largest distance from the centre
  std::vector<double> ridges = {};  // added to the matrix behind every push
  double shrinkage = 0.0;           // variance of a coordinate of the released sum of y x / ridge^2
  // Damped sums of the increments in place of ridges and shrinkage.
  std::shared_ptr<const ForgettingSettings> forgetting = nullptr;
  RunningLoss running_loss = {};
};

// Follow the regularised leader on privately summed gradients: with batches of one round, the
// decision after t rounds is the projection of c - eta G_t, c the domain's centre and G_t the
// noisy sum of the clipped gradients; or ridge regression on noisy quadratic statistics. Only the
// sum touches data, so the decisions are post-processing of it: docs/privacy/noisy_ftrl.md.
// Gradients: O(d) a round plus one projection. Quadratic: O(d^2) a round and O(d^3) a decision.
class NoisyFtrl final : public BatchLearner {
 public:
  // The sum's horizon is that of batches that end, or end before the last round; its dimension
  // sum_dimension(d, statistics), and one more with a running loss.
  NoisyFtrl(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
            losses::RecordClipper clipper, NoisyFtrlSettings settings,
            mechanisms::ContinualSum sum);

  static std::size_t sum_dimension(std::size_t dimension, Statistics statistics) noexcept;

  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  const losses::GlmLoss& loss() const noexcept { return loss_; }
  const NoisyFtrlSettings& settings() const noexcept { return settings_; }
  // The choice among damped sums; null without one.
  const ForgettingLeader* forgetting() const noexcept {
    return forgetting_ ? &*forgetting_ : nullptr;
  }
  // Noisy sum of the losses of all rounds released, the past damped; 0 where there is none.
  double released_loss() const noexcept { return released_loss_; }

  // The vector that a record adds to the sum at a decision, sum().dimension() entries; audits
  // compare it between neighbouring streams. Reads private data; not a release.
  void leaf(std::span<const double> at, std::span<const double> features, double label,
            std::span<double> out) const;

  // Throws std::invalid_argument for statistics that are gradients.
  void observe_batch(std::uint64_t decided, std::span<const double> total, std::uint64_t rounds);

 protected:
  double admit(std::optional<double> label, bool wants_loss) override;
  bool close_round() override;
  void play(std::span<const double> features, std::span<const double> labels,
            std::span<double> losses, std::span<double> decisions,
            std::span<std::uint8_t> changed) override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  // Adds the record's leaf at the given decision to `to`; returns the loss there. `rest`: what
  // rounding has lost of a sum of several leaves; empty where `to` is zero before. The record's
  // features go to `clipped`.
  double add_leaf(std::span<const double> at, std::span<const double> features, double label,
                  std::span<double> to, std::span<double> rest, std::span<double> clipped) const;
  void clip(std::span<double> row) const;  // in place
  void refuse_gradients() const;
  bool publishes_loss() const noexcept { return settings_.running_loss.weight > 0.0; }
  void publish_loss(double released);
  bool lead(std::span<const double> released);  // whether the decision changed

  std::shared_ptr<const domains::Domain> domain_;
  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  NoisyFtrlSettings settings_;
  std::vector<double> center_;
  std::vector<double> target_;    // what is projected
  std::vector<double> previous_;  // decision before the last update
  std::vector<double> clipped_;   // a record's features
  std::vector<double> released_;
  std::optional<QuadraticLeader> leader_;
  std::optional<ForgettingLeader> forgetting_;
  std::vector<double> before_;     // the sum released before, of which increments are differences
  std::vector<double> increment_;  // with noise
  double released_loss_ = 0.0;
  double loss_before_ = 0.0;  // the entry of the sum released before
};

}  // namespace dpoco::oco
