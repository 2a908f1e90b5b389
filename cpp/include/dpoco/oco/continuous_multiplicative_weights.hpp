#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "dpoco/oco/coupled_learner.hpp"
#include "dpoco/samplers/gibbs.hpp"

namespace dpoco::oco {

class LogNormalizer;
class Anchors;

// How a round's acceptance factor follows from its loss l and the kept point u. Let mu and mu' be
// the Gibbs laws before and after the round.
//   density_ratio  mu'(u)/mu(u), scaled by exp(-clip_high) and clipped (the published rule);
//   dartboard      exp(-beta (l(u) - min l));
//   anchored       exp(-beta (l(u) - mean of l over earlier released points)), scaled and clipped;
//   scheduled      no factor: a fresh draw at every block's end;
//   maximal        min(1, mu'(u)/mu(u)), and a switch draws from the excess of mu' over mu: the
//                  fewest switches that a Markov coupling of the laws can have. Not private.
enum class Coupling : std::uint8_t { density_ratio, dartboard, anchored, scheduled, maximal };

struct ContinuousMultiplicativeWeightsSettings {
  mechanisms::SwitchSettings rule;
  Coupling coupling = Coupling::dartboard;
  samplers::GibbsSettings gibbs;  // inverse temperature beta, regularisation lam
  double clip_high = 0.0;         // density_ratio: log factor = log ratio - clip_high, clipped to
  double clip_low = 0.0;          //   [-clip_high - clip_low, 0]; anchored: both are a's maximum
  double factor_range = 0.0;      // dartboard: public bound of l - min l
  std::uint64_t anchors = 0;      // anchored: how many points
  double lipschitz = 0.0;         // l2 Lipschitz constant of the losses
  double clip_error = 0.0;        // anchored: total variation that clipping may add per round
  // Public bound of the losses' curvature, infinite if unknown. It only determines the released
  // grid.
  double smoothness = std::numeric_limits<double>::infinity();
};

// Continuous multiplicative weights with lazily resampled decisions (Agarwal et al., P-COMW,
// Algorithm 1, with blocks and the couplings above). Round t releases a point whose law is the
// Gibbs law of the losses before it. At the end of each block a switch rule decides whether the
// point is kept or a new one is drawn: docs/privacy/couplings.md.
//
// The learner releases the drawn point u rounded to a public grid far finer than the law's spread
// (and projected onto the domain if rounding left it), so that the digits do not show how it was
// computed. The coupling continues with u itself. Random numbers are drawn in this order: at
// construction the first decision, then the first `anchors` points, all from the law without
// losses; then, per block, one uniform if the bit is random and one Gibbs draw if it switches.
//
// Cost per round: one evaluation of the loss (anchored: one more per anchor; none for linear
// losses), plus a normaliser for density_ratio and maximal. No allocation.
class ContinuousMultiplicativeWeights final : public CoupledLearner {
 public:
  // Throws std::invalid_argument for settings out of range, for `dartboard` on all of R^d, and for
  // `density_ratio` or `maximal` if the normaliser has no closed form. It has one for linear losses
  // on R^d, a ball or a box, and for quadratic losses on R^d.
  ContinuousMultiplicativeWeights(std::unique_ptr<losses::LossSum> sum,
                                  ContinuousMultiplicativeWeightsSettings settings,
                                  std::unique_ptr<random::Source> source);
  ~ContinuousMultiplicativeWeights() override;

  const ContinuousMultiplicativeWeightsSettings& settings() const noexcept { return settings_; }

  // Private values, for tests and studies: the last round's log acceptance factor and
  // ln(Z_{t+1}/Z_t) (0 if they were not needed); the unrounded point and the anchors' mean in the
  // body's coordinates.
  double nonprivate_log_factor() const noexcept { return log_factor_; }
  double nonprivate_log_change() const noexcept;
  void nonprivate_point(std::span<double> out) const override;
  void nonprivate_anchor_mean(std::span<double> out) const;  // std::logic_error without anchors

 protected:
  bool close_round() override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  void check_settings() const;
  double grid() const;
  double log_factor(bool& forced);
  void draw();
  void draw_excess();
  void check_positions() const;
  void release();

  ContinuousMultiplicativeWeightsSettings settings_;
  samplers::GibbsSampler sampler_;
  std::unique_ptr<LogNormalizer> normalizer_;  // density_ratio and maximal
  std::unique_ptr<Anchors> anchors_;           // anchored
  std::uint64_t drawn_ = 0;  // number of rounds before the current point was drawn
  double log_factor_ = 0.0;
  std::vector<double> point_;  // u
};

}  // namespace dpoco::oco
