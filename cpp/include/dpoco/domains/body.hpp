#pragma once

#include <memory>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/barrier.hpp"
#include "dpoco/domains/domain.hpp"

namespace dpoco::domains {

// A decision set with an interior, in orthonormal coordinates u around its centre:
// x = centre + Q u. Q is the identity, except for a simplex, which lies in a hyperplane and gets
// one coordinate less. Lengths and inner products of differences are those of x. Immutable.
class Body {
 public:
  enum class Kind : std::uint8_t { space, ball, box, lp_ball, polytope };

  // `unbounded`: all of R^d, around the domain's centre. Throws std::invalid_argument for a domain
  // without interior.
  static Body of(std::shared_ptr<const Domain> domain, bool unbounded);

  Kind kind() const noexcept { return kind_; }
  Index dimension() const noexcept { return dimension_; }  // of u
  Index ambient() const noexcept { return domain_->dimension(); }
  bool simplex() const noexcept { return simplex_; }
  // The domain's max_norm; infinite for all of R^d.
  double max_norm(double order) const;
  // Largest ||u||_2; infinite for all of R^d.
  double radius() const noexcept { return radius_; }
  const Vector& half_widths() const noexcept { return half_widths_; }  // box: |u_i| <= these
  const RowMatrix& rows() const noexcept { return rows_; }             // polytope: rows u <= bounds
  const Vector& bounds() const noexcept { return bounds_; }
  double exponent() const noexcept { return exponent_; }  // lp_ball: ||u||_p <= extent()
  double extent() const noexcept { return extent_; }

  void embed(std::span<const double> u, std::span<double> x) const noexcept;  // u -> x
  void coordinates(std::span<const double> x,
                   std::span<double> u) const noexcept;  // x -> u, of the nearest x - centre
  // <v, x> = offset + <w, u>: writes w, returns offset.
  double pull_back(std::span<const double> v, std::span<double> w) const noexcept;
  // u' M u = (x - c)' A (x - c) for a symmetric A of order ambient(), row by row.
  void pull_back_matrix(std::span<const double> a, std::span<double> m) const;

  bool contains(std::span<const double> u, double tolerance) const noexcept;
  // Writes the interval low <= 0 <= high of the t with u + t step in the body, for a u in the body;
  // the ends are infinite for all of R^d.
  void chord(std::span<const double> u, std::span<const double> step, double& low,
             double& high) const;
  // A lower bound of <w, u> over the body, exact except for a general polytope and an l_p ball.
  double support_low(std::span<const double> w) const noexcept;
  // Euclidean projection; out must not overlap u.
  void project(std::span<const double> u, std::span<double> out) const;
  // The barrier of the interior, in u; null for all of R^d. Throws std::invalid_argument for an l_p
  // ball with p < 2.
  std::shared_ptr<const Barrier> barrier() const;

 private:
  Body(std::shared_ptr<const Domain> domain, Kind kind);
  void reflect(std::span<double> x) const noexcept;

  std::shared_ptr<const Domain> domain_;
  Kind kind_;
  bool simplex_ = false;
  Index dimension_;
  double radius_;
  double exponent_ = 2.0;
  double extent_ = 0.0;
  Vector centre_;
  Vector half_widths_;
  RowMatrix rows_;
  Vector bounds_;
};

}  // namespace dpoco::domains
