#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"

namespace dpoco::domains {

Box::Box(Vector lower, Vector upper)
    : Domain(lower.size()), lower_(std::move(lower)), upper_(std::move(upper)) {
  if (lower_.size() != upper_.size())
    throw std::invalid_argument("lower and upper must have the same length");
  // NaN fails these comparisons.
  for (Index i = 0; i < lower_.size(); ++i)
    if (!(lower_[i] <= upper_[i]) || !std::isfinite(lower_[i]) || !std::isfinite(upper_[i]))
      throw std::invalid_argument("lower and upper must be finite with lower <= upper");
  middle_ = 0.5 * lower_ + 0.5 * upper_;
}

void Box::minimize_linear(std::span<const double> g, std::span<double> v) const noexcept {
  const double* const low = lower_.data();
  const double* const high = upper_.data();
  const double* const middle = middle_.data();
  const Index n = dimension();
  assert(std::ssize(g) == n && std::ssize(v) == n);
  for (Index i = 0; i < n; ++i) {
    const double other = g[i] < 0.0 ? high[i] : middle[i];
    v[i] = g[i] > 0.0 ? low[i] : other;
  }
}

void Box::project(std::span<const double> x, std::span<double> out) const {
  assert(std::ssize(x) == dimension() && out.size() == x.size());
  if (std::isnan(norm(x, std::numeric_limits<double>::infinity()))) return center(out);
  for (Index i = 0; i < dimension(); ++i) out[i] = std::clamp(x[i], lower_[i], upper_[i]);
}

bool Box::contains(std::span<const double> x, double tolerance) const noexcept {
  assert(std::ssize(x) == dimension());
  for (Index i = 0; i < dimension(); ++i) {
    const double slack = tolerance * std::max(std::fabs(lower_[i]), std::fabs(upper_[i]));
    if (!(x[i] >= lower_[i] - slack && x[i] <= upper_[i] + slack)) return false;
  }
  return true;
}

void Box::center(std::span<double> out) const { std::ranges::copy(view(middle_), out.begin()); }

}  // namespace dpoco::domains
