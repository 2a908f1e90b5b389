#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/frank_wolfe/leaf_rule.hpp"
#include "dpoco/mechanisms/vertex_selection.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::frank_wolfe {

struct PolyhedralFrankWolfeSettings {
  std::uint64_t horizon = 0;       // rounds
  std::uint64_t batch = 1;         // rounds per update
  bool published_weights = false;  // w_k = k + 1 instead of k
  mechanisms::SelectionNoise noise = mechanisms::SelectionNoise::gumbel;
  double scale = 0.0;  // c: update k has noise of scale b_k = c k^-exponent; 0: none
  double exponent = 0.0;
};

// Private online Frank-Wolfe on a polytope (Han et al., DP-POFW, Algorithm 2, in batches and with
// corrected weights and leaf clipping). All rounds of batch k see theta_k; their leaves enter an
// exact sum G, and a private selection draws the next vertex for d_k = G / (batch w_k):
//   theta_{k+1} = theta_k + (v_k - theta_k) / (k + 1).
// Data reach the decisions through the selected vertices alone: docs/privacy/
// polyhedral_frank_wolfe.md. An incomplete last batch is never used. O(d) per round and per update,
// O(d) per vertex of a list; no allocation.
class PolyhedralFrankWolfe {
 public:
  // start: the public first decision, in the domain.
  PolyhedralFrankWolfe(std::shared_ptr<const domains::Domain> domain, LeafRule leaves,
                       PolyhedralFrankWolfeSettings settings,
                       std::unique_ptr<random::Source> source, const double* start);

  Index dimension() const noexcept { return domain_->dimension(); }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return settings_.horizon; }
  // theta_k, and theta_{k-1}, the other point where a custom loss is differentiated (theta_1 in
  // the first batch). Throws RoundOrderError while another thread runs the learner.
  void decision(double* out) const;
  void previous_decision(double* out) const;
  const random::Source& source() const noexcept { return *source_; }
  random::Source& source() noexcept { return *source_; }

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

  // Many rounds of generalised linear (labels given) or linear (labels null) losses, as for
  // TreeFrankWolfe::run: decisions (rounds x d), losses and changed (rounds each) may be null;
  // losses are not private. The caller enters.
  void run(const Exclusive::Entry& entered, const double* features, const double* labels,
           std::uint64_t rounds, double* losses, double* decisions, std::uint8_t* changed);

  // The leaf of a record at given decisions in the current round: what an audit compares between
  // neighbouring streams. Reads private data; not a release.
  void leaf(const double* at, const double* previous, const double* features, double label,
            double* out) const;
  // The sum G of the complete batches, in the current round. Private data; for audits.
  const std::vector<double>& nonprivate_sum() const noexcept { return sum_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  double weight() const noexcept;
  double* rest() noexcept;  // of a batch of several rounds, else null
  void require(std::uint64_t rounds) const;
  void require_turn(std::uint64_t decided) const;
  const double* own_copy(const double* record);
  void finish_round();
  void select_vertex();

  std::shared_ptr<const domains::Domain> domain_;
  LeafRule leaves_;
  PolyhedralFrankWolfeSettings settings_;
  std::unique_ptr<mechanisms::VertexSelection> selection_;
  std::unique_ptr<random::Source> source_;
  SharedCount round_;          // rounds observed
  std::uint64_t step_ = 1;     // k = 1 + round / batch: index of the current decision
  std::uint64_t pending_ = 0;  // round mod batch
  bool moved_ = false;         // whether the last round changed the decision
  std::vector<double> theta_;
  std::vector<double> previous_;
  std::vector<double> row_;        // private copy of a record: the caller's memory is read once
  std::vector<double> leaf_;       // of the current batch
  std::vector<double> leaf_rest_;  // what rounding has lost of it
  std::vector<double> sum_;
  std::vector<double> rest_;  // what rounding has lost of the sum
  std::vector<double> zero_;
  std::vector<double> direction_;
  std::vector<double> vertex_;
  Exclusive exclusive_;
};

}  // namespace dpoco::frank_wolfe
