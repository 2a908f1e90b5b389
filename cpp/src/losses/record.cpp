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

// Computed norms of order < inf carry a relative error below (n + 16) 2^-52, and scaling the
// record and then the leaf rounds a few times more. Clipping to a bound smaller by that much keeps
// the exact norm inside the declared one; the loss of signal is of the order 1e-14.
double shrunk(double bound, Index dimension) noexcept {
  const double error =
      (static_cast<double>(dimension) + 64.0) * std::numeric_limits<double>::epsilon();
  return bound * (1.0 - std::min(error, 0.5));
}

// NaN for a norm that is. Compilers make a branch of more than one comparison, whatever data say.
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
  // The largest entry is exact; only the product's rounding could pass the bound.
  safe_bound_ = std::isinf(order) ? bound : shrunk(bound, dimension);
  safe_bound_l2_ = shrunk(bound_l2, dimension);
  // Far above what rounding and underflow may take from a sum of powers.
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
  // Most records are inside, which the dual of the common p = 3/2 knows without a root.
  double result = 1.0;
  if (!(inside_ > 0.0 && domains::power_sum(x, 1.0, 3.0) < inside_)) {
    result = factor(domains::norm(x, order_), safe_bound_);
  }
  if (std::isfinite(bound_l2_))
    result = std::min(result, factor(domains::norm(x, 2.0), safe_bound_l2_));
  if (std::isinf(order_) && result < 1.0)
    result *= 1.0 - 4.0 * std::numeric_limits<double>::epsilon();
  // A subnormal factor has too few bits to keep the product inside the bound. False for NaN.
  return result >= std::numeric_limits<double>::min() ? result : 0.0;
}

}  // namespace dpoco::losses
