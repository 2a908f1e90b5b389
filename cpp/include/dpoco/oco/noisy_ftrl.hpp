#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/quadratic_leader.hpp"

namespace dpoco::oco {

// What a round adds to the private sum: the gradient at its decision, or, for the squared loss,
// (x x', y x), from which the whole loss follows.
enum class Statistics { gradient, quadratic };

struct NoisyFtrlSettings {
  std::uint64_t horizon = 0;   // rounds
  std::uint64_t batch = 1;     // rounds per decision
  double step_size = 1.0;      // eta
  double scalar_bound = 0.0;   // |dl/dz| <= this, for generalised linear losses
  double vector_scale = 1.0;   // factor on y x in the quadratic statistics
  double domain_radius = 1.0;  // largest distance from the centre
  Statistics statistics = Statistics::gradient;
};

// Follow the regularised leader on privately summed gradients: with batches of one round, the
// decision after t rounds is the projection of c - eta G_t, c the domain's centre and G_t the
// noisy sum of the clipped gradients; or the leader on noisy quadratic statistics. Only the sum
// touches data, so the decisions are post-processing of it: docs/privacy/noisy_ftrl.md.
// Gradients: O(d) a round plus one projection, no allocation of its own. Quadratic: O(d^3).
class NoisyFtrl {
 public:
  // The sum's horizon is horizon / batch, its dimension sum_dimension(d, statistics).
  NoisyFtrl(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
            losses::RecordClipper clipper, NoisyFtrlSettings settings,
            mechanisms::ContinualSum sum);

  static std::size_t sum_dimension(std::size_t dimension, Statistics statistics) noexcept;

  Index dimension() const noexcept { return domain_->dimension(); }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return settings_.horizon; }
  // Throws RoundOrderError while another thread runs the learner.
  void decision(double* out) const;
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  mechanisms::ContinualSum& sum() noexcept { return sum_; }

  // Keeps other threads out for as long as it lives; throws RoundOrderError if one is in.
  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }

  // One round: the one in which `decided` rounds were over when its decision was asked for. Each
  // throws RoundOrderError if that is not the current round, HorizonExceeded past the horizon and
  // StateError in a forked child, before any draw, state unchanged. Non-finite records count as
  // zero.
  void observe(std::uint64_t decided, const double* features, double label);
  void observe_gradient(std::uint64_t decided, const double* gradient);

  // Many rounds of generalised linear (labels given) or linear (labels null) losses; rows are
  // contiguous. losses, decisions (rounds x d) and changed (rounds) may be null. losses are
  // evaluated on the clipped record: they are not private. As for ContinualSum::run, the caller
  // enters.
  void run(const Exclusive::Entry& entered, const double* features, const double* labels,
           std::uint64_t rounds, double* losses, double* decisions, std::uint8_t* changed);

  // What a record adds to the sum at a given decision, sum().dimension() entries: what an audit
  // compares between neighbouring streams. Reads private data; not a release.
  void leaf(const double* at, const double* features, double label, double* out) const;

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  // Adds the record's leaf at the given decision to `to`; returns the loss there.
  // `rest`: what rounding has lost of a sum of several leaves, without which neighbouring streams
  // drift apart; null where `to` is zero before.
  double add_leaf(const double* at, const double* features, double label, double* to,
                  double* rest) const;
  double* rest() noexcept;  // of a batch of several rounds, else null
  double add_gradient(const double* gradient);
  double clip(double* row) const;  // in place; returns the factor
  void require(std::uint64_t rounds) const;
  void require_turn(std::uint64_t decided) const;
  const double* own_copy(const double* record);
  void finish_round();
  void lead(const double* released);
  void run_linear(const double* gradients, std::uint64_t rounds, double* losses, double* decisions,
                  std::uint8_t* changed);

  std::shared_ptr<const domains::Domain> domain_;
  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  NoisyFtrlSettings settings_;
  mechanisms::ContinualSum sum_;
  SharedCount round_;          // rounds observed
  std::uint64_t pending_ = 0;  // round mod batch
  bool moved_ = false;         // whether the last round changed the decision
  std::vector<double> center_;
  std::vector<double> theta_;
  std::vector<double> target_;           // what is projected
  std::vector<double> previous_;         // decision before the last update
  mutable std::vector<double> clipped_;  // of a record's features
  std::vector<double> row_;        // private copy of a record: the caller's memory is read once
  std::vector<double> leaf_;       // of the current batch
  std::vector<double> leaf_rest_;  // what rounding has lost of it
  std::vector<double> released_;
  // Rows and sums of a block of a long run on linear losses, whose gradients need no decision.
  std::vector<double> rows_;
  std::vector<double> sums_;
  std::optional<QuadraticLeader> leader_;
  Exclusive exclusive_;
};

}  // namespace dpoco::oco
