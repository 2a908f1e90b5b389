#pragma once

#include <cstdint>

#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "hit_and_run.hpp"

namespace dpoco::samplers {

// The Metropolis-adjusted Langevin algorithm in whitened coordinates, for differentiable sums. A
// proposal outside the body is rejected. The step adapts to an acceptance of 0.574 (Roberts and
// Rosenthal, 1998) during a warm-up of fixed length and is then frozen, so that the Gibbs law is
// invariant. Every step draws the same number of variates.
class Langevin {
 public:
  Langevin(domains::Body body, double inverse_temperature, double regularization);

  // ceil(20 n^(1/3) condition ln(1 / tolerance)), the steps after the warm-up.
  static double steps(Index dimension, double tolerance, double condition);

  // An upper bound of the condition number of the whitened law, from its smallest curvature; the
  // metric replaces the largest curvature.
  double condition(losses::LossSum& sum, const Whitening& metric);

  // Makes `count` steps after the warm-up; returns how many were accepted.
  std::uint64_t sample(random::Source& source, losses::LossSum& sum, const Whitening& metric,
                       std::uint64_t count, Vector& out);

  // Draws the start and makes the warm-up, whose last step size is used from then on; then steps
  // from `out`.
  void start(random::Source& source, losses::LossSum& sum, const Whitening& metric, Vector& out);
  std::uint64_t walk(random::Source& source, losses::LossSum& sum, const Whitening& metric,
                     std::uint64_t count, Vector& out);
  double step_size() const noexcept { return size_; }
  void set_step_size(double size) noexcept { size_ = size; }

 private:
  double energy(losses::LossSum& sum, const Vector& u) const;
  void force(losses::LossSum& sum, const Whitening& metric, const Vector& u, Vector& out);
  double propose(random::Source& source, losses::LossSum& sum, const Whitening& metric, double size,
                 Vector& u, bool& accepted);

  domains::Body body_;
  double beta_;
  double lam_;
  Matrix least_;
  Eigenvalues eigen_;
  double size_ = 1.0;
  double energy_ = 0.0;
  Vector force_;  // the whitened gradient of the energy
  Vector next_force_;
  Vector noise_;
  Vector move_;
  Vector next_;
};

}  // namespace dpoco::samplers
