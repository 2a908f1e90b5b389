#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/gibbs.hpp"

namespace dpoco::oco {

class LogNormalizer;
class Anchors;

// How a round's acceptance factor follows from its loss l and the kept point u. With mu and mu' the
// Gibbs laws before and after the round:
//   density_ratio  mu'(u)/mu(u), scaled by exp(-clip_high) and clipped (the published rule);
//   dartboard      exp(-beta (l(u) - min l));
//   anchored       exp(-beta (l(u) - mean of l over earlier released points)), scaled and clipped;
//   scheduled      none: a fresh draw at every block's end;
//   maximal        min(1, mu'(u)/mu(u)), and a switch draws from the excess of mu' over mu: the
//                  fewest switches a Markov coupling of the laws can have. Not private.
enum class Coupling : std::uint8_t { density_ratio, dartboard, anchored, scheduled, maximal };

struct ContinuousMultiplicativeWeightsSettings {
  mechanisms::SwitchSettings rule;
  Coupling coupling = Coupling::dartboard;
  samplers::GibbsSettings gibbs;  // inverse temperature beta, regularisation lam
  double clip_high = 0.0;         // density_ratio: log factor = log ratio - clip_high, clipped to
  double clip_low = 0.0;          //   [-clip_high - clip_low, 0]; anchored: both are a's maximum
  double factor_range = 0.0;      // dartboard: public bound of l - min l
  std::uint64_t anchors = 0;      // anchored: how many points
  double lipschitz = 0.0;         // anchored: l2 Lipschitz constant of the losses
  double clip_error = 0.0;        // anchored: total variation that clipping may add per round
  // Public bound of the losses' curvature, infinite if unknown; it only sets the released grid.
  double smoothness = std::numeric_limits<double>::infinity();
};

// Continuous multiplicative weights with lazily resampled decisions (Agarwal et al., P-COMW,
// Algorithm 1, with blocks and the couplings above). Round t releases a point whose law is the
// Gibbs law of the losses before it; a switch rule decides at the end of each block whether the
// point is kept or drawn afresh: docs/privacy/couplings.md.
//
// Released is the drawn point u rounded to a public grid far finer than the law's spread (and
// projected onto the domain if rounding left it), so that the digits say nothing about how it was
// computed; the coupling goes on with u itself. Random numbers, in this order: the first decision,
// then the first `anchors` points, both from the law without losses, at construction; then, per
// block, one uniform if the bit is random and one Gibbs draw if it switches.
//
// Cost per round: one evaluation of the loss (anchored: one more per anchor; none for linear
// losses), plus a normaliser for density_ratio and maximal. No allocation.
class ContinuousMultiplicativeWeights {
 public:
  // Throws std::invalid_argument for settings out of range, for `dartboard` on all of R^d, and for
  // `density_ratio` or `maximal` where the normaliser has no closed form: it has one for linear
  // losses on R^d, a ball or a box, and for quadratic ones on R^d.
  ContinuousMultiplicativeWeights(std::unique_ptr<losses::LossSum> sum,
                                  ContinuousMultiplicativeWeightsSettings settings,
                                  std::unique_ptr<random::Source> source);
  ~ContinuousMultiplicativeWeights();

  Index dimension() const noexcept { return sum_->body().ambient(); }
  Index intrinsic_dimension() const noexcept { return sum_->dimension(); }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return settings_.rule.horizon; }
  std::uint64_t switches() const noexcept { return switches_; }
  const random::Source& source() const noexcept { return *source_; }
  random::Source& source() noexcept { return *source_; }

  // The decision of the current round. RoundOrderError while another thread is in, StateError once
  // a round was broken off by an exception.
  void decision(double* out) const;

  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }

  // One round, as for TreeFrankWolfe: RoundOrderError, HorizonExceeded or StateError come before
  // the record is read. A malformed record counts as a zero loss. std::invalid_argument, state
  // unchanged, if the sum takes another kind of record.
  void observe(std::uint64_t decided, const double* features, double label);
  void observe_gradient(std::uint64_t decided, const double* gradient);
  void observe_quadratic(std::uint64_t decided, const double* matrix, const double* vector);
  // Other losses: `stage` brings the round's loss into the sum. An exception out of `stage` leaves
  // the state unchanged. Out of the loss's own functions later in the round, it leaves the object
  // unusable, since random numbers may have been used.
  void observe_staged(std::uint64_t decided, const std::function<void(losses::LossSum&)>& stage);

  // Many rounds of generalised linear (labels given) or linear (labels null) losses; rows are
  // contiguous. losses, decisions (rounds x d) and changed may be null. losses are those of the
  // clipped records at the released decisions: not private. The caller enters.
  void run(const Exclusive::Entry& entered, const double* features, const double* labels,
           std::uint64_t rounds, double* losses, double* decisions, std::uint8_t* changed);

  // Private values, for tests and studies: the last round's log acceptance factor and
  // ln(Z_{t+1}/Z_t) (0 where they were not needed); the unrounded point and the anchors' mean in
  // the body's coordinates.
  double nonprivate_log_factor() const noexcept { return log_factor_; }
  double nonprivate_log_change() const noexcept;
  void nonprivate_point(double* out) const;
  void nonprivate_anchor_mean(double* out) const;  // std::logic_error without anchors

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  void check_settings() const;
  void require(std::uint64_t rounds) const;
  void require_whole() const;
  void require_turn(std::uint64_t decided) const;
  double grid() const;
  double log_factor(bool& forced);
  void finish_round();
  void draw();
  void draw_excess();
  void check_positions() const;
  void release(const double* u, double* out);  // out may be u

  ContinuousMultiplicativeWeightsSettings settings_;
  std::unique_ptr<losses::LossSum> sum_;
  std::unique_ptr<random::Source> source_;
  mechanisms::SwitchRule rule_;
  samplers::GibbsSampler sampler_;
  std::unique_ptr<LogNormalizer> normalizer_;  // density_ratio and maximal
  std::unique_ptr<Anchors> anchors_;           // anchored
  double grid_;
  SharedCount round_;
  SharedCount switches_;
  std::uint64_t drawn_ = 0;  // rounds before the current point's draw
  bool moved_ = false;       // whether the last round switched
  bool broken_ = false;      // whether a round was broken off
  double log_factor_ = 0.0;
  std::vector<double> point_;     // u
  std::vector<double> released_;  // u rounded
  std::vector<double> scratch_;
  std::vector<double> decision_;  // released_, embedded
  Exclusive exclusive_;
};

}  // namespace dpoco::oco
