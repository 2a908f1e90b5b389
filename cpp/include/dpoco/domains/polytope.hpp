#pragma once

#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"

namespace dpoco::domains {

// {x : rows x <= bounds}: bounded, with an interior. Rows have length 1.
//
// Both minimisers walk from the centre along the walls of the set (a primal active-set method): a
// step costs O(m n + n^2) for m rows, and there are a few times n steps. They keep a workspace for
// each thread, which allocates when it grows. Results are feasible and optimal to about 1e-14 of
// the size of the set, the projection of a far point also to 1e-14 of its distance.
class Polytope final : public Domain {
 public:
  // `center` is an interior point, [lower, upper] a box around the set, `radius` a bound of the
  // distances from the centre. Throws std::invalid_argument for sizes that do not agree, rows that
  // are not of length 1 and a centre that is not inside.
  Polytope(RowMatrix rows, const Vector& bounds, Vector center, Vector lower, Vector upper,
           double radius);

  // The smallest box around the set, rounded outward by a bound of the duality gap that rounding
  // leaves. `reach` bounds the distances from `center`. Entries are positive: -below <= x - center
  // <= above. Solves 2 n linear programs. Throws std::invalid_argument as above.
  static void bounding_box(const RowMatrix& rows, const Vector& bounds, const Vector& center,
                           double reach, Vector& below, Vector& above);

  const RowMatrix& rows() const noexcept { return rows_; }
  const Vector& slack() const noexcept { return slack_; }  // bounds - rows center > 0
  const Vector& lower() const noexcept { return lower_; }
  const Vector& upper() const noexcept { return upper_; }
  double radius() const noexcept { return radius_; }

  // Among tied minimisers, returns the one that the walk from the centre reaches. Returns the
  // centre for a g that is not finite.
  void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept override;
  // A point of the set is its own projection, bit for bit.
  void project(std::span<const double> x, std::span<double> out) const override;
  // Row by row up to tolerance times the largest |a_1 x_1| + .. + |a_n x_n| over the bounding box.
  bool contains(std::span<const double> x, double tolerance) const noexcept override;
  void center(std::span<double> out) const override;
  double diameter(double order) const override;
  double max_norm(double order) const override;

 private:
  RowMatrix rows_;
  Vector slack_;
  Vector center_;
  Vector lower_;
  Vector upper_;
  Vector reach_;  // of each row
  double radius_;
};

}  // namespace dpoco::domains
