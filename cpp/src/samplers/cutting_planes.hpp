#pragma once

#include <cstdint>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

// Minimises J(u) = F(u) + lam ||u||^2 / 2 over a body for any convex F, also with kinks. Uses
// cutting planes whose weights maximise the dual by Frank-Wolfe steps with corrections. Needs only
// values and subgradients.
class CuttingPlanes {
 public:
  CuttingPlanes(domains::Body body, double regularization);

  // Evaluates F until J(at) - min (l + lam ||u||^2 / 2) <= enough, at most `most` times. For F with
  // Lipschitz constant A the gap is at most 27 A^2 / (lam (most + 2)). Returns the smallest gap
  // found, and its minorant in `out`.
  double solve(losses::LossSum& sum, double enough, std::uint64_t most, Minorant& out);

 private:
  static constexpr Index kPlanes = 64;

  void weigh(double enough);
  void move();
  void shift(Index from, Index to);
  Index free_place();

  domains::Body body_;
  double lam_;
  Index count_ = 0;
  Matrix slopes_;   // columns
  Vector offsets_;  // plane j: <slope_j, u> + offset_j
  Vector weights_;
  Vector slope_;  // slope of the combination
  Vector at_;
  Vector heights_;  // heights of the planes at at_
  Vector scratch_;
};

// The curvature of F around u at the scale of the Gibbs law, from second differences of values and
// differences of subgradients within the body. A kink counts as its average curvature over a
// standard deviation.
class SecantCurvature {
 public:
  SecantCurvature(domains::Body body, double inverse_temperature, double regularization);

  void measure(losses::LossSum& sum, const Vector& u, Matrix& out);

  // Returns about one standard deviation of the law through u along a unit vector. `bend` becomes
  // the curvature of F + lam ||u||^2 / 2 over it. Evaluates at most 101 pairs of values.
  double width(losses::LossSum& sum, const Vector& u, const Vector& direction, double& bend);

 private:
  double value(losses::LossSum& sum, const Vector& u, double t, const Vector& direction);

  domains::Body body_;
  double beta_;
  double lam_;
  Eigenvalues eigen_;
  Vector direction_;
  Vector trial_;
  Vector ahead_;
  Vector behind_;
};

}  // namespace dpoco::samplers
