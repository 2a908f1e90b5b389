#pragma once

#include <span>
#include <vector>

#include "active_set.hpp"
#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// Primal active-set method over {u : rows u <= slack}, slack > 0, rows of length 1: minimises
// <g, u> or ||u - v||^2 / 2. From a feasible point it moves in the steepest feasible direction of
// the current face to the next wall; at a face's minimum it leaves the wall with the most negative
// multiplier. After many steps of length 0, at a degenerate vertex, the lowest index decides
// (Bland); a cap on the steps ends what rounding might let cycle. Every iterate is feasible.
class WallWalk {
 public:
  // Starts again from u = 0 with no active wall. `size` is the size of the set. The rows and slacks
  // must outlive the walk.
  void start(const RowMatrix& rows, const Vector& slack, double size);

  // These two continue from the current point and walls.
  void minimize_linear(std::span<const double> g);
  void project(std::span<const double> v);

  const Vector& point() const noexcept { return point_; }
  // Upper bound of max <-g, u> over the set, after minimize_linear(g), for |u| <= reach.
  double dual_bound(double reach);

 private:
  void walk();
  void gradient();
  bool advance(double length);
  Index blocking(double& step) const;
  Index leaving(double tolerance);
  void measure_room();
  void refine();

  const RowMatrix* rows_ = nullptr;
  const Vector* slack_ = nullptr;
  std::span<const double> target_;  // v, or g
  bool linear_ = true;
  bool bland_ = false;
  double grain_ = 0.0;  // violations below this do not count
  double scale_ = 0.0;  // length of v or g
  double step_ = 0.0;   // length of the last step
  ActiveSet active_;
  std::vector<char> is_active_;
  Vector point_;
  Vector room_;
  Vector rate_;
  Vector pull_;     // -gradient
  Vector rotated_;  // pull_ in the coordinates of the factorisation
  Vector direction_;
  Vector multipliers_;
};

}  // namespace dpoco::domains
