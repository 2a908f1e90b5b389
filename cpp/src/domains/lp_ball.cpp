#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/projections.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
Domain::Domain(Index dimension) : dimension_(dimension) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
}

LpBall::LpBall(Index dimension, double p, double radius)
    : Domain(dimension), p_(p), radius_(radius), kind_(Kind::general) {
  if (!(p >= 1.0)) throw std::invalid_argument("p must be in [1, inf]");
  if (!(radius > 0.0) || !std::isfinite(radius))
    throw std::invalid_argument("radius must be positive and finite");
  if (p <= 1.0 + 1e-12) p_ = 1.0;
  if (p >= 1e12) p_ = std::numeric_limits<double>::infinity();
  if (p_ == 1.0) kind_ = Kind::one;
  if (p_ == 2.0) kind_ = Kind::two;
  if (std::isinf(p_)) kind_ = Kind::infinity;
}

void LpBall::minimize_padded(const double* g, std::size_t n, double* v) const noexcept {
  switch (kind_) {
    case Kind::one:
      return minimize_one(g, n, v);
    case Kind::two:
      return minimize_two(g, n, v);
    case Kind::general:
      return minimize_general(g, n, v);
    case Kind::infinity:
      return simd::kernels().against(radius_, g, n, v);
  }
}

void LpBall::minimize_one(const double* g, std::size_t n, double* v) const noexcept {
  std::fill_n(v, n, 0.0);
  const double max_abs = simd::kernels().max_abs(g, n);
  if (!(max_abs > 0.0)) return;
  const double* const top =
      std::find_if(g, g + n, [max_abs](double x) { return std::fabs(x) == max_abs; });
  if (top != g + n) v[top - g] = *top > 0.0 ? -radius_ : radius_;
}

void LpBall::minimize_two(const double* g, std::size_t n, double* v) const noexcept {
  const auto& kernel = simd::kernels();
  const double squares = kernel.dot(g, g, n);
  if (squares >= 1e-200 && squares <= 1e200) {
    return kernel.scale(-radius_ / std::sqrt(squares), g, n, v);
  }
  const double max_abs = kernel.max_abs(g, n);
  if (!(max_abs > 0.0)) {
    std::fill_n(v, n, 0.0);
    return;
  }
  const PowerOfTwoScale scale = power_of_two_scale(max_abs);
  for (std::size_t i = 0; i < n; ++i) v[i] = scale.apply(g[i]);
  kernel.scale(-radius_ / std::sqrt(kernel.dot(v, v, n)), v, n, v);
}

// With t = |g| / max|g|: v_j = -radius sign(g_j) t_j^(q-1) (sum t^q)^(-1/p), 1/p + 1/q = 1.
void LpBall::minimize_general(const double* g, std::size_t n, double* v) const noexcept {
  const auto& kernel = simd::kernels();
  const double power = 1.0 / (p_ - 1.0);  // q - 1 without cancellation
  const double max_abs = kernel.max_abs(g, n);
  if (!(max_abs > 0.0)) {
    std::fill_n(v, n, 0.0);
    return;
  }
  // Power 2 is the common p = 3/2.
  const auto powers = [&](const double* x, double scale) {
    power == 2.0 ? kernel.signed_square(x, n, scale, v)
                 : kernel.signed_power(x, n, scale, power, v);
  };
  double sum = 0.0;
  // sum t^q is <t^(q-1), t>: one power per coordinate instead of two.
  if (max_abs >= 1e-290 && max_abs <= 1e290) {
    const double inverse = 1.0 / max_abs;
    powers(g, inverse);
    sum = kernel.dot(v, g, n) * inverse;
  } else {
    const PowerOfTwoScale scale = power_of_two_scale(max_abs);
    const double inverse = 1.0 / scale.apply(max_abs);
    for (std::size_t i = 0; i < n; ++i) v[i] = scale.apply(g[i]);
    powers(v, inverse);
    for (std::size_t i = 0; i < n; ++i) sum += v[i] * (scale.apply(g[i]) * inverse);
  }
  kernel.scale(-radius_ * elementary::exp(-elementary::log(sum) / p_), v, n, v);
}

void LpBall::project(const double* x, double* out) const {
  const Index n = dimension();
  if (std::isnan(norm(x, n, std::numeric_limits<double>::infinity()))) return center(out);
  switch (kind_) {
    case Kind::one:
      return project_l1_ball(x, n, radius_, out);
    case Kind::two:
      return project_l2_ball(x, n, radius_, out);
    case Kind::general:
      return project_lp_ball(x, n, p_, radius_, out);
    case Kind::infinity:
      for (Index i = 0; i < n; ++i) out[i] = std::clamp(x[i], -radius_, radius_);
  }
}

bool LpBall::contains(const double* x, double tolerance) const noexcept {
  return norm(x, dimension(), p_) <= radius_ * (1.0 + tolerance);
}

void LpBall::center(double* out) const { std::fill_n(out, dimension(), 0.0); }

}  // namespace dpoco::domains
