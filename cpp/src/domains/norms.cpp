#include "dpoco/domains/norms.hpp"

#include <algorithm>
#include <cmath>

#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

// Adds eight partial sums in a fixed order, as in simd/kernels.hpp.
template <class Term>
double sum_terms(std::span<const double> x, Term term) noexcept {
  const Index n = std::ssize(x);
  double part[8] = {};
  Index i = 0;
  for (; i + 8 <= n; i += 8)
    for (Index j = 0; j < 8; ++j) part[j] += term(x[i + j]);
  for (Index j = 0; i < n; ++i, ++j) part[j] += term(x[i]);
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

double root(double sum, double order) noexcept {
  if (order == 1.0) return sum;
  if (order == 2.0) return std::sqrt(sum);
  return elementary::exp(elementary::log(sum) / order);
}

// For a max|x| that is so small or large that its reciprocal or the powers would leave the normal
// range.
double rescaled_norm(std::span<const double> x, double order, double max_abs) noexcept {
  constexpr std::size_t kChunk = 128;
  const PowerOfTwoScale scale = power_of_two_scale(max_abs);
  const double top = scale.apply(max_abs);
  double chunk[kChunk];
  double sum = 0.0;
  for (std::size_t start = 0; start < x.size(); start += kChunk) {
    const std::size_t length = std::min(kChunk, x.size() - start);
    for (std::size_t i = 0; i < length; ++i) chunk[i] = scale.apply(x[start + i]);
    sum += power_sum({chunk, length}, 1.0 / top, order);
  }
  return max_abs * root(sum, order);
}

}  // namespace

double power_sum(std::span<const double> x, double scale, double order) noexcept {
  if (order == 3.0) {
    return sum_terms(x, [scale](double value) {
      const double t = std::fabs(value) * scale;
      return t * t * t;
    });
  }
  return simd::kernels().abs_power_sum(x.data(), x.size(), scale, order);
}

PowerOfTwoScale power_of_two_scale(double max_abs) noexcept {
  int exponent = 0;
  std::frexp(max_abs, &exponent);
  const int half = exponent / 2;
  return {std::ldexp(1.0, -half), std::ldexp(1.0, half - exponent)};
}

double norm(std::span<const double> x, double order) noexcept {
  const auto& kernel = simd::kernels();
  if (order == 2.0) {
    const double squares = kernel.dot(x.data(), x.data(), x.size());
    // Inside this range every square that matters is a normal number; NaN fails the test.
    if (squares >= 1e-200 && squares <= 1e200) return std::sqrt(squares);
  } else if (order == 1.0) {
    const double sum = sum_terms(x, [](double value) { return std::fabs(value); });
    if (sum >= 1e-290 && sum <= 1e300) return sum;
  }
  const double max_abs = kernel.max_abs(x.data(), x.size());
  if (!(max_abs > 0.0) || std::isinf(order)) return max_abs;
  if (max_abs >= 1e-290 && max_abs <= 1e290 && order != 2.0)
    return max_abs * root(power_sum(x, 1.0 / max_abs, order), order);
  return rescaled_norm(x, order, max_abs);
}

}  // namespace dpoco::domains
