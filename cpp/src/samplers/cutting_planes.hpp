#pragma once

#include <cstdint>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

// Minimises J(u) = F(u) + lam ||u||^2 / 2 over a body for any convex F, kinks included: cutting
// planes, whose weights maximise the dual by Frank-Wolfe steps with corrections. Values and
// subgradients suffice.
class CuttingPlanes {
 public:
  CuttingPlanes(domains::Body body, double regularization);

  // Looks at F until J(at) - min (l + lam ||u||^2 / 2) <= enough, at most `most` times: for F with
  // Lipschitz constant A that gap is at most 27 A^2 / (lam (most + 2)). Returns the least gap seen,
  // and the minorant with it.
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
  Vector slope_;  // of the combination
  Vector at_;
  Vector heights_;  // of the planes at at_
  Vector scratch_;
};

// The curvature of F around u at the scale of the Gibbs law, from second differences of values and
// differences of subgradients within the body: kinks count as what they amount to over a standard
// deviation.
class SecantCurvature {
 public:
  SecantCurvature(domains::Body body, double inverse_temperature, double regularization);

  void measure(losses::LossSum& sum, const Vector& u, Matrix& out);

  // About a standard deviation of the law through u along a unit vector; `bend` becomes the
  // curvature of F + lam ||u||^2 / 2 over it. At most 101 pairs of values.
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
