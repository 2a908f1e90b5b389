#include <algorithm>
#include <cassert>
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

void LpBall::minimize_padded(std::span<const double> g, std::span<double> v) const noexcept {
  assert(std::ssize(g) >= dimension() && v.size() == g.size());
  switch (kind_) {
    case Kind::one:
      return minimize_one(g, v);
    case Kind::two:
      return minimize_two(g, v);
    case Kind::general:
      return minimize_general(g, v);
    case Kind::infinity:
      return simd::kernels().against(radius_, g.data(), g.size(), v.data());
  }
}

void LpBall::minimize_one(std::span<const double> g, std::span<double> v) const noexcept {
  std::ranges::fill(v, 0.0);
  const double max_abs = simd::kernels().max_abs(g.data(), g.size());
  if (!(max_abs > 0.0)) return;
  const auto top = std::ranges::find_if(g, [max_abs](double x) { return std::fabs(x) == max_abs; });
  if (top != g.end()) v[top - g.begin()] = *top > 0.0 ? -radius_ : radius_;
}

void LpBall::minimize_two(std::span<const double> g, std::span<double> v) const noexcept {
  const auto& kernel = simd::kernels();
  const std::size_t n = g.size();
  const double squares = kernel.dot(g.data(), g.data(), n);
  if (squares >= 1e-200 && squares <= 1e200) {
    return kernel.scale(-radius_ / std::sqrt(squares), g.data(), n, v.data());
  }
  const double max_abs = kernel.max_abs(g.data(), n);
  if (!(max_abs > 0.0)) {
    std::ranges::fill(v, 0.0);
    return;
  }
  const PowerOfTwoScale scale = power_of_two_scale(max_abs);
  for (std::size_t i = 0; i < n; ++i) v[i] = scale.apply(g[i]);
  kernel.scale(-radius_ / std::sqrt(kernel.dot(v.data(), v.data(), n)), v.data(), n, v.data());
}

// With t = |g| / max|g|: v_j = -radius sign(g_j) t_j^(q-1) (sum t^q)^(-1/p), 1/p + 1/q = 1.
void LpBall::minimize_general(std::span<const double> g, std::span<double> v) const noexcept {
  const auto& kernel = simd::kernels();
  const std::size_t n = g.size();
  const double power = 1.0 / (p_ - 1.0);  // q - 1 without cancellation
  const double max_abs = kernel.max_abs(g.data(), n);
  if (!(max_abs > 0.0)) {
    std::ranges::fill(v, 0.0);
    return;
  }
  // The power is 2 for the common p = 3/2.
  const auto powers = [&](const double* x, double scale) {
    power == 2.0 ? kernel.signed_square(x, n, scale, v.data())
                 : kernel.signed_power(x, n, scale, power, v.data());
  };
  double sum = 0.0;
  // sum t^q is <t^(q-1), t>: one power per coordinate instead of two.
  if (max_abs >= 1e-290 && max_abs <= 1e290) {
    const double inverse = 1.0 / max_abs;
    powers(g.data(), inverse);
    sum = kernel.dot(v.data(), g.data(), n) * inverse;
  } else {
    const PowerOfTwoScale scale = power_of_two_scale(max_abs);
    const double inverse = 1.0 / scale.apply(max_abs);
    for (std::size_t i = 0; i < n; ++i) v[i] = scale.apply(g[i]);
    powers(v.data(), inverse);
    for (std::size_t i = 0; i < n; ++i) sum += v[i] * (scale.apply(g[i]) * inverse);
  }
  kernel.scale(-radius_ * elementary::exp(-elementary::log(sum) / p_), v.data(), n, v.data());
}

void LpBall::project(std::span<const double> x, std::span<double> out) const {
  assert(std::ssize(x) == dimension() && out.size() == x.size());
  if (std::isnan(norm(x, std::numeric_limits<double>::infinity()))) return center(out);
  switch (kind_) {
    case Kind::one:
      return project_l1_ball(x, radius_, out);
    case Kind::two:
      return project_l2_ball(x, radius_, out);
    case Kind::general:
      return project_lp_ball(x, p_, radius_, out);
    case Kind::infinity:
      for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::clamp(x[i], -radius_, radius_);
  }
}

bool LpBall::contains(std::span<const double> x, double tolerance) const noexcept {
  assert(std::ssize(x) == dimension());
  return norm(x, p_) <= radius_ * (1.0 + tolerance);
}

void LpBall::center(std::span<double> out) const { std::ranges::fill(out, 0.0); }

}  // namespace dpoco::domains
