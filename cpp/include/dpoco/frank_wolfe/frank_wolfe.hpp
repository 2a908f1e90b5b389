#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/frank_wolfe/leaf_rule.hpp"
#include "dpoco/frank_wolfe/vertex_rule.hpp"
#include "dpoco/oco/record_learner.hpp"

namespace dpoco::frank_wolfe {

struct FrankWolfeSettings {
  std::uint64_t horizon = 0;  // rounds
  std::uint64_t batch = 1;    // rounds per update
  double step_scale = 1.0;    // eta_k = s / (k + s)
  // Weights of the recursive gradient estimate d_k = (1/w_k) sum_j [w_j grad_j(theta_j) -
  // (w_j - 1) grad_j(theta_{j-1})]: w_k = k + 1 (as published) or w_k = k (unbiased).
  bool published_weights = false;
};

// Private online Frank-Wolfe (Han et al., DP-TOFW and DP-POFW, Algorithms 1 and 2, in batches and
// with corrected weights and leaf clipping). All rounds of batch k see theta_k. Their leaves
//   g = w_k grad(theta_k) - (w_k - 1) grad(theta_{k-1})
// enter a sum, from which a vertex v_k follows: by minimisation of a private sum, or by a private
// selection for an exact sum. Then theta_{k+1} = theta_k + eta_k (v_k - theta_k). Data influence
// the decisions only through the vertices. An incomplete last batch is never used. O(d) per round
// and per update. No allocation, except in a run of many rounds, which reads and draws several at
// once.
class FrankWolfe final : public oco::RecordLearner {
 public:
  // `start` is the public first decision, in the domain.
  FrankWolfe(std::shared_ptr<const domains::Domain> domain, LeafRule leaves,
             FrankWolfeSettings settings, std::unique_ptr<VertexRule> rule,
             std::span<const double> start);

  // theta_{k-1}, the second point at which a custom loss is differentiated; theta_1 in the first
  // batch.
  void previous_decision(std::span<double> out) const;
  const random::Source& source() const noexcept override { return rule_->source(); }
  using RecordLearner::source;

  const LeafRule& leaves() const noexcept { return leaves_; }
  const VertexRule& rule() const noexcept { return *rule_; }
  const FrankWolfeSettings& settings() const noexcept { return settings_; }
  std::uint64_t batch() const noexcept { return settings_.batch; }

  // As `observe`, for a custom loss and for a round without a record, whose leaf is exactly 0.
  void observe_gradients(std::uint64_t decided, std::span<const double> at_decision,
                         std::span<const double> at_previous);
  void skip(std::uint64_t decided);

  // The leaf of a record at given decisions in the current round. Audits compare it between
  // neighbouring streams. It reads private data and is not a release.
  void leaf(std::span<const double> at, std::span<const double> previous,
            std::span<const double> features, double label, std::span<double> out) const;
  // The sum of the full batches' leaves. Private data, for audits.
  std::vector<double> nonprivate_sum() const { return rule_->nonprivate_sum(); }

 protected:
  double admit(std::optional<double> label, bool wants_loss) override;
  bool close_round() override;
  void play(std::span<const double> features, std::span<const double> labels,
            std::span<double> losses, std::span<double> decisions,
            std::span<std::uint8_t> changed) override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  double weight() const noexcept;
  void take(double factor);  // factor times row_ is the round's leaf

  std::shared_ptr<const domains::Domain> domain_;
  LeafRule leaves_;
  FrankWolfeSettings settings_;
  std::unique_ptr<VertexRule> rule_;
  std::uint64_t step_ = 1;        // k = 1 + round / batch: index of the current decision
  std::vector<double> previous_;  // padded with zeros, as are the decision, the row and the vertex
  BatchSum batch_;
  double factor_ = 0.0;  // of the row: in a batch of one round, factor_ * row_ is its sum
  std::vector<double> vertex_;
};

}  // namespace dpoco::frank_wolfe
