#include <algorithm>
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
  // Written so that NaN fails.
  for (Index i = 0; i < lower_.size(); ++i)
    if (!(lower_[i] <= upper_[i]) || !std::isfinite(lower_[i]) || !std::isfinite(upper_[i]))
      throw std::invalid_argument("lower and upper must be finite with lower <= upper");
  middle_ = 0.5 * lower_ + 0.5 * upper_;
}

void Box::minimize_linear(const double* g, double* v) const noexcept {
  const double* const low = lower_.data();
  const double* const high = upper_.data();
  const double* const middle = middle_.data();
  const Index n = dimension();
  for (Index i = 0; i < n; ++i) {
    const double other = g[i] < 0.0 ? high[i] : middle[i];
    v[i] = g[i] > 0.0 ? low[i] : other;
  }
}

void Box::project(const double* x, double* out) const {
  if (std::isnan(norm(x, dimension(), std::numeric_limits<double>::infinity()))) return center(out);
  for (Index i = 0; i < dimension(); ++i) out[i] = std::clamp(x[i], lower_[i], upper_[i]);
}

bool Box::contains(const double* x, double tolerance) const noexcept {
  for (Index i = 0; i < dimension(); ++i) {
    const double slack = tolerance * std::max(std::fabs(lower_[i]), std::fabs(upper_[i]));
    if (!(x[i] >= lower_[i] - slack && x[i] <= upper_[i] + slack)) return false;
  }
  return true;
}

void Box::center(double* out) const { std::copy_n(middle_.data(), dimension(), out); }

}  // namespace dpoco::domains
