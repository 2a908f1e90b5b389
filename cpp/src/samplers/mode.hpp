#pragma once

#include <memory>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/loss_sum.hpp"

namespace dpoco::samplers {

using Matrix = Eigen::MatrixXd;

// Minimises (v - at)'H(v - at)/2 + g'(v - at) over a body, for positive definite H: the step of
// Newton's method with constraints. If the unconstrained minimum is inside, Cholesky alone
// suffices. Otherwise the kind of body decides: projected Newton steps (box), the secular equation
// (ball), or accelerated projected gradients.
class QuadraticModel {
 public:
  explicit QuadraticModel(domains::Body body);

  // `least` > 0 is a lower bound of H's eigenvalues; `out` must not overlap `at`.
  void minimize(const Matrix& hessian, const Vector& gradient, const Vector& at, double least,
                Vector& out);

 private:
  void minimize_box(const Matrix& hessian, const Vector& gradient, const Vector& at, Vector& out);
  void minimize_ball(const Matrix& hessian, const Vector& gradient, const Vector& at, Vector& out);
  void minimize_projected(const Matrix& hessian, const Vector& gradient, const Vector& at,
                          double least, Vector& out);

  domains::Body body_;
  Cholesky factor_;
  Eigenvalues eigen_;
  Vector slope_;
  Vector ahead_;
  Vector next_;
};

// An affine minorant of F on a body, from values and subgradients: a convex combination of tangents
// l(u) = height + <slope, u - at>, where `at` is the minimiser of l + lam ||u||^2 / 2 over the
// body.
struct Minorant {
  explicit Minorant(Index dimension) : at(dimension), slope(dimension) {}

  Vector at;
  Vector slope;
  double height = 0.0;  // l(at)
};

// Minimises J(u) = F(u) + lam ||u||^2 / 2 over a body, by Newton's method with constraints and a
// line search. F must be convex with a (generalised) Hessian, as Huber losses are. No guarantee
// depends on the accuracy: samplers are exact from any point of the body.
class ModeSolver {
 public:
  ModeSolver(domains::Body body, double regularization);

  // Returns the residual that GibbsSampler::mode describes; infinite if a kink ended the search.
  double solve(losses::LossSum& sum, Vector& u);

  // Computes roughly the minimiser of beta J plus the body's barrier, and the Hessian there. Near
  // active walls it lies where the Gibbs law has its mass, and the Hessian shows how thin that
  // layer is. On the whole space this is the mode. Without a barrier (l_p balls, p < 2) it is the
  // mode moved inwards.
  void central(losses::LossSum& sum, double inverse_temperature, Vector& u, Matrix& hessian);

  // The same with l(u) + (u - at)'bend (u - at)/2 in place of F, for losses without Hessians.
  void central(const Minorant& tangent, const Matrix& bend, double inverse_temperature, Vector& u,
               Matrix& hessian);

 private:
  template <class Value, class Derivatives>
  void descend(double inverse_temperature, Vector& u, Matrix& hessian, Value energy,
               Derivatives derivatives);
  void widen(double inverse_temperature, Vector& u, Matrix& hessian) const;
  double value(losses::LossSum& sum, const Vector& u) const;
  void derivatives(losses::LossSum& sum, const Vector& u);
  double residual(const Vector& u);
  double search(losses::LossSum& sum, const Vector& u, double slope);

  domains::Body body_;
  double regularization_;
  std::shared_ptr<const domains::Barrier> barrier_;
  QuadraticModel model_;
  Cholesky factor_;
  Matrix hessian_;
  RowMatrix barrier_hessian_;
  Vector gradient_;
  Vector target_;
  Vector step_;
  Vector trial_;
  Vector best_;
  Vector scratch_;
};

}  // namespace dpoco::samplers
