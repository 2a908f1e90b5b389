#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "dpoco/core/types.hpp"

namespace dpoco::losses {

// Enforces the declared bounds ||x||_order <= bound and ||x||_2 <= bound_l2 on every record. The
// sensitivity of a leaf depends on them.
class RecordClipper {
 public:
  // order in [1, inf]; bounds positive; bound_l2 = inf for none. Throws std::invalid_argument.
  RecordClipper(Index dimension, double bound, double order,
                double bound_l2 = std::numeric_limits<double>::infinity());

  Index dimension() const noexcept { return dimension_; }
  double bound() const noexcept { return bound_; }
  double order() const noexcept { return order_; }
  double bound_l2() const noexcept { return bound_l2_; }
  // Bounds of a clipped record x: largest ||x||_2, and |<x, y>| for all y with norms of order r of
  // at most max_norm(r), by Hoelder's inequality in the declared order and in l_2.
  double largest_l2() const noexcept;
  template <class MaxNorm>
  double largest_product(MaxNorm max_norm) const {
    const double dual = order_ == 1.0        ? std::numeric_limits<double>::infinity()
                        : std::isinf(order_) ? 1.0
                                             : order_ / (order_ - 1.0);
    const double product = bound_ * max_norm(dual);
    return std::isinf(bound_l2_) ? product : std::fmin(product, bound_l2_ * max_norm(2.0));
  }

  // The factor in (0, 1] that brings x inside both bounds, or 0 (a zero record) if an entry is not
  // finite or the factor would not be a normal number. The exact norm of the rounded product factor
  // * x never exceeds a bound. O(dimension), no allocation, and no branch that depends on data,
  // except for entries outside about 1e-100 .. 1e100.
  double multiplier(std::span<const double> x) const noexcept;

 private:
  Index dimension_;
  double bound_;
  double order_;
  double bound_l2_;
  double safe_bound_;
  double safe_bound_l2_;
  double inside_ = 0.0;  // a record with a smaller sum of cubes is inside the bound of order 3
};

}  // namespace dpoco::losses
