#pragma once

#include "dpoco/domains/domain.hpp"

namespace dpoco::domains {

// The convex hull of finitely many points, the rows of a matrix. Points inside the hull are allowed
// and harmless. A linear minimisation is one pass over the rows, a projection is Wolfe's method,
// finished in double-double arithmetic.
class VertexSet final : public Domain {
 public:
  // Throws std::invalid_argument unless there is a row and every entry is finite.
  explicit VertexSet(RowMatrix vertices);

  Index count() const noexcept { return vertices_.rows(); }
  std::span<const double> vertex(Index i) const noexcept { return view(vertices_.row(i)); }
  // out_i = <g, row i>
  void scores(std::span<const double> g, std::span<double> out) const noexcept;

  void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept override;
  void project(std::span<const double> x, std::span<double> out) const override;
  bool contains(std::span<const double> x, double tolerance) const noexcept override;
  void center(std::span<double> out) const override;
  double diameter(double order) const override;
  double max_norm(double order) const override;

 private:
  RowMatrix vertices_;
  Vector center_;
  double size_ = 0.0;  // largest entry in magnitude
};

}  // namespace dpoco::domains
