#include "dpoco/samplers/special.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace dpoco::samplers {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An interval [a, b] is flipped so that b >= |a|: its mass stays, and a >= 0 in the tails. The
// offset of the tail form is -a^2/2, whose square would overflow beyond 1e150.
constexpr double kFarthest = 1e150;

// (Phi(b) - Phi(a)) / phi(c) / (b - a), with c the middle and h half the length: the sum over even
// k of He_k(c) h^k / (k+1)!. For c h < 0.4 and h < 1, twelve terms leave less than 1e-17.
double narrow_factor(double c, double h) {
  const double ch = c * h;
  const double hh = h * h;
  double previous = 1.0;  // He_k h^k by its three-term recurrence
  double current = ch;
  double sum = 1.0;
  double factorial = 1.0;  // (k+1)!
  for (int k = 2; k <= 24; k += 2) {
    const double kk = k;
    const double even = ch * current - (kk - 1.0) * hh * previous;
    factorial *= kk * (kk + 1.0);
    sum += even / factorial;
    previous = even;
    current = ch * even - kk * hh * current;
    // previous and current are now of orders k and k + 1.
  }
  return sum;
}

// One interval, b >= |a|, in pieces: ln mass = offset + ln(1 + excess).
struct Interval {
  double offset;
  double excess;
};

// `exponent` is (b - a)(b + a)/2 >= 0 and `length` is b - a. The caller knows both more precisely.
DPOCO_INLINE Interval wide_interval(double a, double b, double exponent) {
  const double size = a < 0.0 ? -a : a;
  const double near = mills_ratio(size);
  const double far = mills_ratio(b);
  const double ratio = elementary::exp(-exponent);  // phi(b) / phi(a)
  const double half_square = 0.5 * size * size;
  const double density = kInverseSqrtTwoPi * elementary::exp(-half_square);
  const bool tail = a >= 0.0;
  const double in_tail = (near - 1.0) - ratio * far;
  const double in_middle = -density * (near + ratio * far);
  return {tail ? -half_square - kLogSqrtTwoPi : 0.0, tail ? in_tail : in_middle};
}

// Returns whether the wide form would cancel: the ratio of the densities at both ends must not be
// near 1, and the mass of an interval around 0 must not be near 0.
DPOCO_INLINE bool is_narrow(double a, double length, double exponent) {
  return exponent < 0.7 && (a >= 0.0 || length < 1.0);
}

double narrow_interval(double a, double length) {
  const double h = 0.5 * length;
  const double c = a + h;
  return -0.5 * c * c - kLogSqrtTwoPi + elementary::log(length) +
         elementary::log1p(narrow_factor(c, h) - 1.0);
}

}  // namespace

double log_normal_box(std::span<const double> half_widths, std::span<const double> means,
                      double scale) {
  assert(half_widths.size() == means.size());
  const auto n = static_cast<long>(means.size());
  constexpr long kBlock = 16;
  const double inverse = 1.0 / scale;
  CompensatedSum total;
  for (long start = 0; start < n; start += kBlock) {
    const long count = std::min(kBlock, n - start);
    double offsets[kBlock];
    double excesses[kBlock];
    bool narrow[kBlock];
    // Symmetric bounds: the mean's sign has no effect, and low = (|m| - h)/s <= high.
    for (long i = 0; i < count; ++i) {
      const double h = half_widths[start + i];
      const double m = means[start + i];
      const double size = m < 0.0 ? -m : m;
      const double exact = (size - h) * inverse;
      const double low = exact > kFarthest ? kFarthest : exact;
      const double length = 2.0 * h * inverse;
      const double high = (size + h) * inverse;
      const double exponent = length * (size * inverse);
      const Interval wide =
          wide_interval(low, high > 2.0 * kFarthest ? 2.0 * kFarthest : high, exponent);
      offsets[i] = wide.offset;
      excesses[i] = wide.excess;
      narrow[i] = is_narrow(low, length, exponent);
    }
    for (long i = 0; i < count; ++i) offsets[i] += elementary::log1p(excesses[i]);
    for (long i = 0; i < count; ++i) {
      if (narrow[i]) {
        const double h = half_widths[start + i];
        const double m = means[start + i];
        const double low = ((m < 0.0 ? -m : m) - h) * inverse;
        offsets[i] = narrow_interval(low > kFarthest ? kFarthest : low, 2.0 * h * inverse);
      }
      total += offsets[i];
    }
  }
  return static_cast<double>(total);
}

// ---- gamma --------------------------------------------------------------------------------------

namespace {

constexpr double kStirlingFrom = 10.0;

// ln Gamma(a) - ((a - 1/2) ln a - a + ln sqrt(2 pi)) for a >= 10. The first omitted term is below
// 2e-17.
double stirling_error(double a) {
  const double s = 1.0 / (a * a);
  double sum = -0.029550653594771242;
  sum = sum * s + 0.0064102564102564103;
  sum = sum * s + -0.0019175269175269175;
  sum = sum * s + 0.00084175084175084175;
  sum = sum * s + -0.00059523809523809524;
  sum = sum * s + 0.00079365079365079365;
  sum = sum * s + -0.0027777777777777778;
  sum = sum * s + 0.083333333333333333;
  return sum / a;
}

// y - 1 - ln y >= 0 at y = x/a, with relative accuracy near y = 1. With delta = y - 1 and s =
// delta/(2 + delta) it is s delta - 2 (s^3/3 + s^5/5 + ...).
double log_deficit(double x, double a) {
  const double delta = (x - a) / a;
  if (delta < -0.3 || delta > 0.4) return delta - elementary::log(x / a);
  const double s = delta / (2.0 + delta);
  const double z = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 3; k -= 2) sum = sum * z + 1.0 / k;
  return s * (delta - 2.0 * z * sum);
}

}  // namespace

double log_gamma(double a) {
  double product = 1.0;
  double shifted = a;
  while (shifted < kStirlingFrom) {
    product *= shifted;
    shifted += 1.0;
  }
  const double stirling = (shifted - 0.5) * elementary::log(shifted) - shifted + kLogSqrtTwoPi +
                          stirling_error(shifted);
  return stirling - elementary::log(product);
}

IncompleteGamma::IncompleteGamma(double a) : a_(a) {
  log_norm_ = a >= kStirlingFrom ? stirling_error(a) + kLogSqrtTwoPi + 0.5 * elementary::log(a)
                                 : log_gamma(a + 1.0);
}

double IncompleteGamma::log_prefactor(double x) const {
  if (a_ >= kStirlingFrom) return -a_ * log_deficit(x, a_) - log_norm_;
  return a_ * elementary::log(x) - x - log_norm_;
}

IncompleteGamma::Value IncompleteGamma::operator()(double x) const {
  // elementary::log needs a normal number; 1e-300 stands for anything smaller.
  x = std::max(x, 1e-300);
  const double prefactor = log_prefactor(x);
  // The series has positive terms. Beyond this point Q is below 0.1 and its continued fraction
  // converges fast.
  if (x < a_ + 1.0 + 1.5 * std::sqrt(a_ + 1.0)) {
    double term = 1.0;
    double sum = 1.0;
    double divisor = a_;
    while (term > 1e-17 * sum) {
      divisor += 1.0;
      term *= x / divisor;
      sum += term;
    }
    return {prefactor + elementary::log(sum), a_ / sum};
  }
  // Q = a prefactor / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method.
  double b = x + 1.0 - a_;
  double d = 1.0 / b;
  double c = kInfinity;
  double fraction = d;
  for (double k = 1.0; k < 10000.0; k += 1.0) {
    const double numerator = k * (a_ - k);
    b += 2.0;
    d = 1.0 / (numerator * d + b);
    c = b + numerator / c;
    const double step = c * d;
    fraction *= step;
    if (std::fabs(step - 1.0) < 2e-16) break;
  }
  const double density = a_ * elementary::exp(prefactor);
  const double q = density * fraction;
  return {elementary::log1p(-q), density / (1.0 - q)};
}

double IncompleteGamma::p(double x) const {
  return x > 0.0 ? elementary::exp((*this)(x).log_p) : 0.0;
}

}  // namespace dpoco::samplers
