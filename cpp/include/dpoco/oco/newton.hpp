#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/barrier.hpp"
#include "dpoco/losses/loss_sum.hpp"

namespace dpoco::oco {

// The factor U of a symmetric positive definite matrix H = U'U, U upper triangular. Matrices are
// n x n, row-major; no method allocates.
class CholeskyFactor {
 public:
  explicit CholeskyFactor(Index n);

  // Reads the upper triangle; matrix may be entries(). Returns false, with an invalid factor,
  // unless the matrix is positive definite. O(n^3 / 3).
  bool compute(std::span<const double> matrix);
  // H <- H + scale v v' for scale >= 0. O(n^2).
  void update(double scale, std::span<const double> v);

  double log_determinant() const noexcept;
  // w = U'^-1 v, so that ||w||^2 = v'H^-1 v. w may be v. O(n^2 / 2).
  void whiten(std::span<const double> v, std::span<double> w) const;
  // x = H^-1 b; x may be b. O(n^2).
  void solve(std::span<const double> b, std::span<double> x) const;

  // U; the entries below its diagonal are arbitrary.
  const std::vector<double>& entries() const noexcept { return u_; }
  std::vector<double>& entries() noexcept { return u_; }

 private:
  std::size_t n_;
  std::vector<double> u_;
  std::vector<double> work_;
};

// ||u||^2 / (2 step size) + weight * barrier, added to the losses.
struct Regularizer {
  Index dimension = 0;
  double inverse_step = 0.0;
  double weight = 0.0;
  std::shared_ptr<const domains::Barrier> barrier;  // null for weight 0
  // The polytope {rows u <= bounds} of the barrier; otherwise empty.
  RowMatrix rows = {};
  Vector bounds = {};

  void gradient(std::span<const double> u, std::span<double> out) const;
  void add_hessian(std::span<const double> u, std::span<double> matrix) const;
  // Computes the factor of `curvature`, positive semidefinite, plus the Hessian at u, and leaves
  // the sum in `matrix`. Near a vertex of a polytope the terms of the walls differ by many orders
  // of magnitude, and their sum loses the small ones. If they differ by more than `steep`, the
  // factor is updated with one term after the other. Returns false if the factor does not exist.
  bool factor(std::span<const double> u, std::span<const double> curvature,
              std::span<double> matrix, CholeskyFactor& out, double steep = 1e8) const;
  bool inside(std::span<const double> u) const;  // the regularizer is finite
  // Largest t with u + t step in the body.
  double distance(std::span<const double> u, std::span<const double> step) const;
};

// The state of a solver: a point, the gradient of the sum of losses there, and a model of the sum's
// Hessian, positive semidefinite.
struct LeaderPoint {
  std::vector<double> u;
  std::vector<double> slope;
  std::vector<double> curvature;
  bool exact = false;  // the last solve computed the Hessian at u: see LeaderSolver::hessian
};

// Minimises J(u) + <z, u>, J = sum of losses + regularizer, up to the rounding errors of the
// gradient. The regularizer is known in closed form. So every step minimises it together with a
// quadratic model of the losses, by damped Newton steps that do not evaluate the losses; one
// evaluation of their gradient per step improves the model (a BFGS update). If the losses do not
// fit into the cache, a step may compute their Hessian in the same pass, which costs little more
// and saves steps. If a step does not halve the gradient, the solver minimises the objective along
// the step and uses the exact Hessian for the next. This line search uses the sign of the
// derivative, which is monotone by convexity and robust to rounding, and not the values of the
// objective, which show a minimum with only half the digits. So it finds the minimum of any convex
// sum, also between kinks and at walls, to the last bit of t.
class LeaderSolver {
 public:
  using Linear = std::span<const double>;  // z, or the gradient of a sum of losses

  explicit LeaderSolver(Regularizer regularizer);

  const Regularizer& regularizer() const noexcept { return regularizer_; }

  // Moves `at` to the minimiser; its curvature remains a model. Returns |grad J + z| there, which
  // is at most 1e-12 (|z| + |grad sum| + |u| / step size) or, if rounding prevents this, the larger
  // of `tolerance` and the change of the gradient by the last bits of u. Convex losses with finite
  // gradients never throw, whatever the data: if even that is impossible, no step from the point
  // lowers the objective by an amount that a double shows. If a user's loss has no point with a
  // small gradient, it is not convex or not smooth: StateError.
  double solve(losses::LossSum& sum, Linear z, double tolerance, LeaderPoint& at);
  // The Hessian of the losses at the last solve's point, if it is exact.
  const std::vector<double>& hessian() const noexcept { return bend_; }

 private:
  double residual(const LeaderPoint& at, Linear z) { return residual(at.slope, z, at.u); }
  double residual(Linear slope, Linear z, std::span<const double> u);
  double scale(const LeaderPoint& at, Linear z) const;
  double rounding(const std::vector<double>& u, const std::vector<double>& curvature);
  void restart(losses::LossSum& sum, LeaderPoint& at);
  void minimize_model(const LeaderPoint& at, Linear z, bool near);
  bool factor_model(const std::vector<double>& u, const std::vector<double>& curvature);
  double newton_step(const std::vector<double>& curvature);
  bool falls(const std::vector<double>& curvature);
  bool damp(const std::vector<double>& curvature);
  bool descend(const std::vector<double>& curvature, double size, double enough, int most);
  double look(losses::LossSum& sum, Linear z);
  void learn(LeaderPoint& at);
  void move(LeaderPoint& at);
  double line_slope(losses::LossSum& sum, Linear z, const LeaderPoint& at, double t);
  bool search(losses::LossSum& sum, Linear z, const LeaderPoint& at);
  bool improve(losses::LossSum& sum, Linear z, LeaderPoint& at, double& last);

  Regularizer regularizer_;
  Regularizer path_;  // with a weight that approaches that of regularizer_
  std::size_t n_;
  CholeskyFactor factor_;
  std::vector<double> linear_;      // of the model
  std::vector<double> next_;        // its minimiser
  std::vector<double> next_slope_;  // the losses' gradient there
  std::vector<double> next_bend_;   // and, if next_exact_, their Hessian
  std::vector<double> bend_;
  bool next_exact_ = false;
  bool costly_ = false;  // the losses are costly to evaluate
  int looks_ = 0;        // evaluations in this solve
  int expected_looks_ = 0;
  std::vector<double> gradient_;
  std::vector<double> step_;
  std::vector<double> trial_;
  std::vector<double> matrix_;
};

}  // namespace dpoco::oco
