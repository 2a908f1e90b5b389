#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/oco/coupled_learner.hpp"

namespace dpoco::oco {

class LeaderLaw;

// How a round's acceptance factor follows from the laws mu and mu' of the decision before and after
// the round's loss:
//   density_ratio  mu'(u)/mu(u) at the kept point u, scaled by exp(-clip_high) and clipped (the
//                  published rule);
//   scheduled      no factor: a fresh draw at every block's end;
//   maximal        min(1, mu'(u)/mu(u)), and a switch draws from the excess of mu' over mu: the
//                  fewest switches that a Markov coupling of the laws can have. Not private.
enum class LeaderCoupling : std::uint8_t { density_ratio, scheduled, maximal };

struct CoupledRegularizedLeaderSettings {
  mechanisms::SwitchSettings rule;
  LeaderCoupling coupling = LeaderCoupling::density_ratio;
  double step_size = 1.0;    // eta; infinite only with noise_growth
  double noise_scale = 0.0;  // sigma, per coordinate; 0 (no privacy) only for scheduled
  // If set, the draw of round t has variance sigma^2 (t - 1): the first decision is the centre, and
  // the first block always ends in a switch. Not private, and not for linear losses.
  bool noise_growth = false;
  double barrier_weight = 0.0;  // positive exactly for losses with curvature on a bounded domain
  // density_ratio: log factor = log ratio - clip_high, clipped to [-clip_high - clip_low, 0]. With
  // noise_growth both widths follow from the published schedule: see clip_width().
  double clip_high = 0.0;
  double clip_low = 0.0;
  // Public bounds of the losses, for the released grid (smoothness) and the clip schedule.
  double lipschitz = 1.0;         // G
  double smoothness = 0.0;        // beta_s
  double strong_convexity = 0.0;  // lm; needed by the clip schedule
};

// Follows the regularised leader of the losses plus one random linear term, and couples the leaders
// of successive rounds (Agarwal et al., CTRL, Algorithms 1 and 2, with blocks and the couplings
// above). With F the losses so far and B a barrier, round t's law mu is that of
//   u = argmin J(u) + <Z, u>,  J = F + ||u||^2 / (2 eta) + B,  Z ~ N(0, sigma^2 I),
// whose log density is -||grad J||^2 / (2 sigma^2) + ln det Hessian(J) + constant. At the end of
// each block a switch rule decides whether u is kept or a new point is drawn:
// docs/privacy/coupled_regularized_leader.md. For linear losses the coupling acts on y = sum of
// gradients + Z instead, and u = Proj(-eta y): no barrier, no solver.
//
// The learner releases u rounded to a public grid of at most 2^-12 of a lower bound of u's spread
// (for linear losses, y rounded to 2^-12 sigma), projected onto the domain if rounding left it, so
// that the digits do not show how it was computed. The coupling continues with u itself. Random
// numbers are drawn in this order: the first decision's Gaussians at construction; then, per block,
// one uniform if the bit is random, and the Gaussians of one draw if it switches. For `maximal`,
// the stay bit is the switch rule's own with factor min(1, mu'/mu), and each attempt at a draw uses
// Gaussians and one uniform.
//
// Cost per round without a switch: O(n) for linear losses, O(n^2) for generalised linear losses,
// O(n^3) for others. A switch solves for the leader: three or four gradients and a Hessian of F.
class CoupledRegularizedLeader final : public CoupledLearner {
 public:
  // Throws std::invalid_argument for settings that are out of range or contradict each other.
  CoupledRegularizedLeader(std::unique_ptr<losses::LossSum> sum,
                           CoupledRegularizedLeaderSettings settings,
                           std::unique_ptr<random::Source> source);
  ~CoupledRegularizedLeader() override;

  // Half the window of the log factors in round t (from 1): clip_high, or the published schedule of
  // noise_growth, where the two laws of round t have the noises of rounds t - 1 and t.
  double clip_width(std::uint64_t t) const noexcept;
  const CoupledRegularizedLeaderSettings& settings() const noexcept { return settings_; }
  double grid() const noexcept { return grid_; }

  // Private values, for tests and studies: the last round's ln(mu'/mu) at its point (0 if it was
  // not needed), and |grad J + Z| / sigma of the last draw (absolute for sigma = 0).
  double nonprivate_log_ratio() const noexcept { return log_ratio_; }
  double nonprivate_residual() const noexcept;
  // The unrounded point: u, or y for linear losses. intrinsic_dimension() entries, as below.
  void nonprivate_point(std::span<double> out) const override;
  // ln of the density of a draw made now, after round() losses, at u (linear losses: at y). Not for
  // a noise of variance zero.
  double nonprivate_log_density(std::span<const double> u);
  // ln(mu'/mu) at u for the loss of the last round.
  double nonprivate_log_ratio_at(std::span<const double> u);
  // The point for noise z now.
  void nonprivate_solve(std::span<const double> z, std::span<double> out);

 protected:
  bool close_round() override;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  void check_settings() const;
  double released_grid() const;
  double variance(std::uint64_t t) const noexcept;
  double log_factor(double log_ratio) const noexcept;
  void draw(double variance, bool density);
  void draw_excess();
  void release();
  void check_positions() const;

  CoupledRegularizedLeaderSettings settings_;
  std::unique_ptr<LeaderLaw> law_;
  std::uint64_t attempts_ = 0;  // attempts at draws of an excess
  bool counted_ = false;        // whether the last loss entered the sum
  double log_ratio_ = 0.0;
  std::vector<double> noise_;
  std::vector<double> scaled_;
};

}  // namespace dpoco::oco
