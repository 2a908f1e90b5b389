#include "dpoco/losses/record.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::losses {
namespace {

// Computed norms of order < inf have a relative error below (n + 16) 2^-52, and scaling the record
// and then the leaf adds a few rounding errors. Clipping to a bound that is smaller by that much
// keeps the exact norm within the declared bound. The loss of signal is of the order 1e-14.
double shrunk(double bound, Index dimension) noexcept {
  const double error =
      (static_cast<double>(dimension) + 64.0) * std::numeric_limits<double>::epsilon();
  return bound * (1.0 - std::min(error, 0.5));
}

// Returns NaN for a NaN norm. With more than one comparison, compilers would make a branch whose
// time depends on the data.
double factor(double norm, double bound) noexcept {
  const double ratio = bound / norm;
  return 1.0 < ratio ? 1.0 : ratio;
}

}  // namespace

RecordClipper::RecordClipper(Index dimension, double bound, double order, double bound_l2)
    : dimension_(dimension), bound_(bound), order_(order), bound_l2_(bound_l2) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (!(bound > 0.0) || !std::isfinite(bound))
    throw std::invalid_argument("bound must be positive and finite");
  if (!(order >= 1.0)) throw std::invalid_argument("order must be in [1, inf]");
  if (!(bound_l2 > 0.0)) throw std::invalid_argument("bound_l2 must be positive");
  // The largest entry is exact. Only the rounding of the product could exceed the bound.
  safe_bound_ = std::isinf(order) ? bound : shrunk(bound, dimension);
  safe_bound_l2_ = shrunk(bound_l2, dimension);
  // Far larger than the error of a sum of powers from rounding and underflow.
  const double power = safe_bound_ * safe_bound_ * safe_bound_;
  if (order == 3.0 && power > 1e-200) inside_ = power * (1.0 - 1e-6);
}

double RecordClipper::largest_l2() const noexcept {
  const double gap = 0.5 - 1.0 / order_;
  const double stretch = gap > 0.0 ? elementary::power(static_cast<double>(dimension_), gap) : 1.0;
  return std::min(bound_ * stretch, bound_l2_);
}

double RecordClipper::multiplier(std::span<const double> x) const noexcept {
  assert(std::ssize(x) == dimension_);
  // Most records are inside. For the common p = 3/2 with its dual norm of order 3, this is decided
  // without a root.
  double result = 1.0;
  if (!(inside_ > 0.0 && domains::power_sum(x, 1.0, 3.0) < inside_)) {
    result = factor(domains::norm(x, order_), safe_bound_);
  }
  if (std::isfinite(bound_l2_))
    result = std::min(result, factor(domains::norm(x, 2.0), safe_bound_l2_));
  if (std::isinf(order_) && result < 1.0)
    result *= 1.0 - 4.0 * std::numeric_limits<double>::epsilon();
  // A subnormal factor has too few bits to keep the product within the bound. The comparison is
  // false for NaN.
  return result >= std::numeric_limits<double>::min() ? result : 0.0;
}

}  // namespace dpoco::losses
