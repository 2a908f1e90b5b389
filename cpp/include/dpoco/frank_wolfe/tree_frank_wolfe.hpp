#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/frank_wolfe/leaf_rule.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"

namespace dpoco::frank_wolfe {

// Weights of the recursive gradient estimate d_k = (1/w_k) sum_j [w_j grad_j(theta_j) -
// (w_j - 1) grad_j(theta_{j-1})]: w_k = k (unbiased, the default) or w_k = k + 1 (as published).
enum class Weights { unbiased, published };

struct TreeFrankWolfeSettings {
  std::uint64_t horizon = 0;       // rounds
  std::uint64_t batch = 1;         // rounds per update
  double step_scale = 1.0;         // eta_k = s / (k + s)
  double leaf_scalar_bound = 0.0;  // |leaf scalar| <= this, for generalised linear losses
  Weights weights = Weights::unbiased;
};

// Private online Frank-Wolfe (Han et al., DP-TOFW, Algorithm 1, with corrected weights and leaf
// clipping). Round k publishes theta_k; the round's leaf
//   g_k = w_k grad_k(theta_k) - (w_k - 1) grad_k(theta_{k-1})
// enters a private continual sum, whose output divided by w_k is the direction of the next step.
// Only the sum touches data, so the decisions are post-processing of it: docs/privacy/
// tree_frank_wolfe.md. O(d) per round (one linear minimisation, one noise vector), no allocation.
class TreeFrankWolfe {
 public:
  // start: the public first decision, in the domain. The sum's horizon is horizon / batch.
  TreeFrankWolfe(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
                 losses::RecordClipper clipper, TreeFrankWolfeSettings settings,
                 mechanisms::ContinualSum sum, const double* start);

  Index dimension() const noexcept { return domain_->dimension(); }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return settings_.horizon; }
  // theta_k, and theta_{k-1}, the other point where a custom loss is differentiated (theta_1 in
  // round 1). Throws RoundOrderError while another thread runs the learner.
  void decision(double* out) const;
  void previous_decision(double* out) const;
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  mechanisms::ContinualSum& sum() noexcept { return sum_; }

  // Keeps other threads out for as long as it lives; throws RoundOrderError if one is in.
  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }

  // One round: the one in which `decided` rounds were over when its decision was asked for. Each
  // throws RoundOrderError if that is not the current round, HorizonExceeded past the horizon and
  // StateError in a forked child, before any draw, state unchanged. Non-finite records count as
  // zero.
  void observe(std::uint64_t decided, const double* features, double label);
  void observe_gradient(std::uint64_t decided, const double* gradient);  // linear loss
  void observe_gradients(std::uint64_t decided, const double* at_decision,
                         const double* at_previous);
  void skip(std::uint64_t decided);  // a round without a record: its leaf is exactly 0

  // Many rounds of generalised linear (labels given) or linear (labels null) losses; rows are
  // contiguous. decisions (rounds x d) and changed (rounds) may be null. losses are evaluated on
  // the clipped record: they are not private.
  // As for ContinualSum::run, the caller enters.
  void run(const Exclusive::Entry& entered, const double* features, const double* labels,
           std::uint64_t rounds, double* losses, double* decisions, std::uint8_t* changed);

  // The leaf of a record at given decisions in the current round: what an audit compares between
  // neighbouring streams. Reads private data; not a release.
  void leaf(const double* at, const double* previous, const double* features, double label,
            double* out) const;

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  double weight() const noexcept;
  double* rest() noexcept;  // of a batch of several rounds, else null
  void require(std::uint64_t rounds) const;
  void require_turn(std::uint64_t decided) const;
  const double* own_copy(const double* record);
  void finish_round();

  std::shared_ptr<const domains::Domain> domain_;
  LeafRule leaves_;
  TreeFrankWolfeSettings settings_;
  mechanisms::ContinualSum sum_;
  SharedCount round_;          // rounds observed
  std::uint64_t step_ = 1;     // k = 1 + round / batch: index of the current decision
  std::uint64_t pending_ = 0;  // round mod batch
  bool moved_ = false;         // whether the last round changed the decision
  std::vector<double> theta_;
  std::vector<double> previous_;
  std::vector<double> row_;        // private copy of a record: the caller's memory is read once
  std::vector<double> leaf_;       // of the current batch
  std::vector<double> leaf_rest_;  // what rounding has lost of it
  std::vector<double> direction_;  // noisy sum
  std::vector<double> vertex_;
  Exclusive exclusive_;
};

}  // namespace dpoco::frank_wolfe
