#pragma once

#include <memory>
#include <span>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"

namespace dpoco::oco {

// The radius of a Euclidean ball about the origin; 0 for any other domain.
double euclidean_radius(const domains::Domain& domain);

// The minimiser of x'Ax - 2 b'x with ||x|| <= radius, in the eigenbasis of A, given its
// eigenvalues, all positive, and b. Returns the multiplier of the constraint, 0 inside the ball.
double minimize_on_ball(const Vector& spectrum, const Vector& linear, double radius, Vector& x);

// Terms of Stein's identity for the minimiser x of x'M+ x - 2 b'x + ridge ||x - c||^2 over a ball
// about c: the sum over independent entries of M of the derivatives of x_i x_j, and the divergence
// in b. See docs/privacy/forgetting.md.
struct SteinTerms {
  double matrix = 0.0;
  double vector = 0.0;
};

// Both terms, in the eigenbasis of M. spectrum: the eigenvalues of M; inverse: 1 / (M+ + ridge +
// multiplier); constrained: whether x is on the boundary. O(d^2).
SteinTerms stein_terms(std::span<const double> spectrum, std::span<const double> inverse,
                       std::span<const double> x, std::span<const double> from_center,
                       bool constrained);

// Minimises x'M+ x - 2 b'x + ridge ||x - c||^2 over a domain with centre c. M+ is the given
// symmetric matrix with negative eigenvalues replaced by 0, the nearest positive semidefinite
// matrix in the Frobenius norm, so the objective is strongly convex for every M. All inputs are
// released, so the running time may depend on them.
class QuadraticLeader {
 public:
  // radius: of the domain about c, the unit of the accuracy. Throws std::invalid_argument.
  QuadraticLeader(std::shared_ptr<const domains::Domain> domain, double radius);

  // packed: M, off-diagonal entries times sqrt(2), then b times vector_scale. x: the starting point
  // in the domain, replaced by the minimiser. Takes one eigendecomposition, O(d^3); then the
  // secular equation for a Euclidean ball, or accelerated projected gradient steps until x is
  // within 1e-13 radius or as near as rounding allows: 2e-15 radius times the condition number.
  void minimize(std::span<const double> packed, double vector_scale, double ridge,
                std::span<double> x);
  // The two halves of `minimize`: several ridges share one eigendecomposition.
  void decompose(std::span<const double> packed, double vector_scale);
  void solve(double ridge, std::span<double> x);

  // Returns whether the domain is a Euclidean ball about the origin.
  bool on_ball() const noexcept { return ball_radius_ > 0.0; }
  // The terms of the last minimiser, for balls only.
  SteinTerms stein_terms() const;

  // Shrinks x, the last minimiser, towards c. Noise of this variance in every coordinate of b adds
  // variance * tr(A^-2) to ||x - c||^2, with A = M+ + ridge I; this is subtracted from it, down to
  // 0.
  void shrink(double variance, std::span<double> x) const;

 private:
  void solve_general(std::span<double> x);

  std::shared_ptr<const domains::Domain> domain_;
  double ball_radius_;  // see `euclidean_radius`
  double radius_;
  Vector center_;
  RowMatrix matrix_;  // M, then A
  EigenvaluesOfRows eigen_;
  Vector vector_;    // b
  Vector linear_;    // b + ridge c
  Vector spectrum_;  // of A
  double multiplier_ = 0.0;
  Vector point_;
  Vector momentum_;
  Vector next_;
};

}  // namespace dpoco::oco
