#pragma once

#include <memory>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"

namespace dpoco::oco {

// Number of entries of a symmetric matrix of order n kept as its upper triangle, row by row.
constexpr std::size_t packed_size(std::size_t n) noexcept { return n * (n + 1) / 2; }

// Minimises weight (x'M+ x - 2 b'x) + ||x - c||^2 / (2 step) over a domain with centre c. M+ is the
// given symmetric matrix with negative eigenvalues replaced by 0, the nearest positive semidefinite
// matrix in the Frobenius norm, so the objective is 1/step-strongly convex whatever M is.
// All it sees is released, so its running time may depend on it.
class QuadraticLeader {
 public:
  // radius: of the domain about c, the unit of the accuracy. Throws std::invalid_argument.
  QuadraticLeader(std::shared_ptr<const domains::Domain> domain, double weight, double step,
                  double radius);

  // packed: M, off-diagonal entries times sqrt(2), then b times vector_scale. x: a point of the
  // domain to start from, replaced by the minimiser. Jacobi's method, O(d^3) a sweep; then the
  // secular equation for a Euclidean ball, accelerated projected gradient steps otherwise, until
  // within 1e-13 radius or as near as rounding allows: 2e-15 radius times the condition number.
  void minimize(const double* packed, double vector_scale, double* x);

 private:
  void unpack(const double* packed, double vector_scale);
  void diagonalize();
  void rotate(std::size_t p, std::size_t q);
  void solve_ball(double radius, double* x);
  void solve_general(double* x);
  void gradient(const double* x, double* out) const;

  std::shared_ptr<const domains::Domain> domain_;
  double ball_radius_;  // of a Euclidean ball about the origin; 0 for any other domain
  double weight_;
  double step_;
  double radius_;
  std::size_t size_;
  std::vector<double> center_;
  std::vector<double> matrix_;    // M, then what rotations leave of it, then the Hessian
  std::vector<double> vectors_;   // row i: eigenvector i
  std::vector<double> linear_;    // 2 weight b
  std::vector<double> spectrum_;  // of the Hessian 2 weight M+ + I / step
  std::vector<double> point_;
  std::vector<double> momentum_;
  std::vector<double> slope_;
  std::vector<double> next_;
};

}  // namespace dpoco::oco
