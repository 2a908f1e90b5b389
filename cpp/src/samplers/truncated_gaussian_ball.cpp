#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "dpoco/samplers/special.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "truncated_gaussian_parts.hpp"

// All lengths are in units of the scale: radius r, |mean| = m. The coordinate along the mean is z =
// r - u, where u in [0, 2r] is the distance to the cap nearest to the mean. Given u, half of the
// remaining square is a Gamma(a) variate, a = (n - 1)/2, of at most x = u (2r - u)/2. So
//   ln density of u = energy(u) + const,  energy(u) = -c u - u^2/2 + ln P(a, x),  c = m - r,
// which is concave, as the marginal of a log-concave law. In u nothing cancels, however far away
// the mean is.

namespace dpoco::samplers {
namespace {

using random::Source;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// In units of the scale: a mean that is farther away changes nothing and could only overflow. Balls
// smaller than kSmallest are enlarged, balls larger than kLargest are shrunk.
constexpr double kFarthest = 1e150;
constexpr double kSmallest = 1e-70;
constexpr double kLargest = 1e60;

// |x| / largest, in [1, sqrt(n)], where `largest` is the largest |x_i|; 0 for x = 0. Nothing
// overflows. `Sum` is double for draws, and CompensatedSum for masses, whose error is part of a
// guarantee.
template <class Sum>
double length_over_largest(std::span<const double> x, double& largest) {
  largest = 0.0;
  for (const double each : x) largest = std::max(largest, std::fabs(each));
  if (!(largest > 0.0)) return 0.0;
  Sum sum{};
  for (const double each : x) {
    const double part = each / largest;
    sum += part * part;
  }
  return std::sqrt(static_cast<double>(sum));
}

// The number of standard deviations by which the mean squared length of the Gaussian, n + m^2, is
// below r^2.
double standing(double n, double r, double m) {
  if (m > 1e50) return r >= m ? kInfinity : -kInfinity;
  return ((r - m) * (r + m) - n) / std::sqrt(2.0 * n + 4.0 * m * m);
}

class Axial {
 public:
  Axial(Index n, double r, double m)
      : gamma_(0.5 * static_cast<double>(n - 1)),
        a_(0.5 * static_cast<double>(n - 1)),
        r_(r),
        c_(m - r) {}

  struct Point {
    double u;
    double energy;
    double slope;
    double curvature;
  };

  double limit(double u) const { return u * (r_ - 0.5 * u); }  // x

  Point at(double u) const {
    const IncompleteGamma::Value value = gamma_(limit(u));
    const double x = limit(u);
    const double lever = r_ - u;  // dx/du
    const double rise = value.elasticity / x;
    Point point;
    point.u = u;
    point.energy = value.log_p - u * (c_ + 0.5 * u);
    point.slope = lever * rise - c_ - u;
    point.curvature = lever * lever * rise * ((a_ - 1.0 - value.elasticity) / x - 1.0) - rise - 1.0;
    return point;
  }

  double energy(double u) const {
    return u > 0.0 && u < 2.0 * r_ ? gamma_(limit(u)).log_p - u * (c_ + 0.5 * u) : -kInfinity;
  }

  // Returns a point where the slope times the larger of `spread` and the width of the peak is below
  // 0.01, so that the cap of the envelope is hardly too high. The mode solves u (c + u) = k(u),
  // where k decreases from a, and k > a/3 where x < a/2 and u < r/2, because elasticity > a - x. It
  // is below r, where the slope is -m.
  Point mode(double spread) const {
    double low = std::min({root(a_ / 3.0), 0.5 * a_ / r_, 0.5 * r_});
    double high = std::min(r_, root(a_));
    double u = high;
    Point point = at(u);
    for (int i = 0; i < 200; ++i) {
      const double width = 1.0 / std::sqrt(std::max(-point.curvature, 1.0));
      if (std::fabs(point.slope) * std::max(width, spread) < 0.01) break;
      (point.slope > 0.0 ? low : high) = u;
      // Newton's step for u times the slope, which is nearly straight if P is a power of u.
      const double derivative = point.slope + u * point.curvature;
      double next = u - u * point.slope / derivative;
      // Every fourth step halves the bracket in orders of magnitude, because it may span hundreds
      // of them.
      if (i % 4 == 3 || !(derivative < 0.0) || !(next > low && next < high)) {
        next = std::sqrt(low) * std::sqrt(high);
      }
      if (next == u) break;
      u = next;
      point = at(u);
    }
    return point;
  }

  // A point on one side (sign) of the mode whose energy is 0.5 to 2 lower.
  Point shoulder(const Point& mode, double sign) const {
    const double reach = sign < 0.0 ? mode.u : 2.0 * r_ - mode.u;
    double distance = 1.4 / std::sqrt(std::max(-mode.curvature, 1.0));
    double low = 0.0;
    double high = reach;  // the energy is -infinity there
    Point point = mode;
    for (int i = 0; i < 200; ++i) {
      if (!(distance < high)) distance = 0.5 * (low + high);
      point = at(mode.u + sign * distance);
      const double drop = mode.energy - point.energy;
      if (drop >= 0.5 && drop <= 2.0) break;
      (drop < 0.5 ? low : high) = distance;
      // The drop is convex, so the step goes to 1 along the chord from the mode, at most fourfold.
      const double step = distance / std::max(drop, 0.25);
      distance = step > low && step < high ? step : 0.5 * (low + high);
      if (!(distance > low && distance < high)) break;
    }
    return point;
  }

  double sample(Source& source) const;
  double log_mass() const;

 private:
  double root(double k) const {  // u > 0 with u (c + u) = k
    const double spread = std::sqrt(c_ * c_ + 4.0 * k);
    if (!(spread < kInfinity)) return c_ > 0.0 ? k / c_ : -c_;
    return c_ > 0.0 ? 2.0 * k / (c_ + spread) : 0.5 * (spread - c_);
  }

  IncompleteGamma gamma_;
  double a_;
  double r_;
  double c_;
};

// Rejection from two tangents and a cap. docs/privacy/samplers.md: the acceptance is at least 0.39
// for shoulders 0.5 to 2 below the mode, minus the slack of the cap.
double Axial::sample(Source& source) const {
  Point top = mode(0.0);
  Point left = shoulder(top, -1.0);
  Point right = shoulder(top, 1.0);
  // If one side of the peak is far wider than the other, its slope has to be even smaller.
  for (int i = 0; i < 3 && std::fabs(top.slope) * (right.u - left.u) > 0.1; ++i) {
    top = mode(right.u - left.u);
    left = shoulder(top, -1.0);
    right = shoulder(top, 1.0);
  }
  // By concavity no point between the shoulders is higher.
  double cap = top.energy + std::fabs(top.slope) * (right.u - left.u);
  double from = left.u + (cap - left.energy) / left.slope;
  double to = right.u + (cap - right.energy) / right.slope;
  if (from > to) {  // the tangents meet below the cap
    from = to = (right.energy - left.energy + left.slope * left.u - right.slope * right.u) /
                (left.slope - right.slope);
    cap = left.energy + left.slope * (from - left.u);
  }
  const double left_area = 1.0 / left.slope;
  const double middle_area = to - from;
  const double right_area = -1.0 / right.slope;
  const double total = left_area + middle_area + right_area;
  for (;;) {
    const double place = total * source.uniform();
    const double tail = source.exponential();
    const double test = source.exponential();
    double u;
    double bound = cap;
    if (place < middle_area) {
      u = from + place;
    } else if (place < middle_area + left_area) {
      u = from - tail * left_area;
      bound -= tail;
    } else {
      u = to + tail * right_area;
      bound -= tail;
    }
    if (energy(u) >= bound - test) return u;
  }
}

// ln of the mass by the trapezoidal rule in t = ln u, for means far from the centre. The integrand
// is analytic in a strip and falls doubly exponentially on the right, and like exp((a + 1) t) on
// the left, so the rule converges geometrically in 1/step.
double Axial::log_mass() const {
  const Point top = mode(0.0);
  const double inward = c_ < 0.0 ? -c_ : 0.0;
  const double step = 0.5 * std::min({0.25, 1.0 / std::sqrt(a_ + 1.0), 1.0 / (1.0 + inward)});
  const double ratio = elementary::exp(step);
  const double peak = top.energy + elementary::log(top.u);
  double sum = 0.0;
  double t = 0.0;
  for (double u = top.u; u < 2.0 * r_; u *= ratio, t += step) {
    const double value = energy(u) - top.energy + t;
    sum += elementary::exp(value);
    if (value < -40.0) break;
  }
  t = -step;
  for (double u = top.u / ratio; u > 0.0; u /= ratio, t -= step) {
    const double value = energy(u) - top.energy + t;
    sum += elementary::exp(value);
    if (value < -40.0) break;
  }
  return peak - 0.5 * c_ * c_ - kLogSqrtTwoPi + elementary::log(sum * step);
}

// (1 - exp(-y)) / y for y >= 0.
double mean_decay(double y) {
  if (y > 0.5) return (1.0 - elementary::exp(-y)) / y;
  double sum = 1.0;
  for (double k = 15.0; k >= 2.0; k -= 1.0) sum = 1.0 - sum * y / k;
  return sum;
}

// ln of the noncentral chi-square mass from
//   P = exp(-(m^2 + r^2)/2) sum_{k >= 0} (r/m)^(nu+k) I_(nu+k)(m r),  nu = n/2,
// with positive terms. s_v = I_(v+1)(mr) / (mr I_v(mr)) satisfies s_v = 1 / (2 (v+1) + (mr)^2
// s_(v+1)), which is stable downwards. The sum and the normalisation of I follow on the way
// (Horner), with one division per term.
double log_bessel_mass(Index n, double r, double m) {
  const double order = 0.5 * static_cast<double>(n);
  const double base = n % 2 == 0 ? 0.0 : 0.5;
  const double product = m * r;
  const double coupling = product * product;
  const double square = r * r;
  // The largest term has order (r^2 - m^2)/2. Terms more than nine standard deviations and 40 above
  // it add less than 1e-17.
  const double peak = std::max(0.0, 0.5 * (r - m) * (r + m) - order);
  const double spread = r > m ? 0.5 * (square + m * m) : product;
  const double terms = std::ceil(peak + 9.0 * std::sqrt(spread) + 40.0);
  double v = order + terms;
  double s = 1.0 / (v + 1.0 + std::sqrt((v + 1.0) * (v + 1.0) + coupling));
  double one = 1.0;
  double sum = 1.0;
  CompensatedSum logs;      // one term for about 460 of the result
  double bessel_sum = 1.0;  // sum_{k >= 0} I_(v+k) / I_v
  for (; v >= order; v -= 1.0) {
    s = 1.0 / (2.0 * (v + 1.0) + coupling * s);
    sum = one + square * s * sum;
    bessel_sum = 1.0 + product * s * bessel_sum;
    if (sum > 1e250) {
      sum *= 1e-250;
      one *= 1e-250;
      logs += 575.64627324851142;  // 250 ln 10
    }
  }
  // prod of r^2 s_v, base <= v < order; the square of a tiny r would underflow.
  const bool tiny = r < 1e-50;
  const double lever = tiny ? 1.0 : square;
  if (tiny) logs += (2.0 * (order - base)) * elementary::log(r);
  double factors = 1.0;
  for (; v >= base; v -= 1.0) {
    s = 1.0 / (2.0 * (v + 1.0) + coupling * s);
    bessel_sum = 1.0 + product * s * bessel_sum;
    factors *= s * lever;
    if (!(factors > 1e-200 && factors < 1e200)) {
      logs += elementary::log(factors);
      factors = 1.0;
    }
  }
  // exp(-mr) I_0(mr) from exp(x) = I_0 + 2 (I_1 + I_2 + ...); exp(-mr) (r/m)^(1/2) I_(1/2)(mr) in
  // closed form.
  const double scaled = base == 0.0 ? 1.0 / (2.0 * bessel_sum - 1.0)
                                    : 2.0 * kInverseSqrtTwoPi * r * mean_decay(2.0 * product);
  const double total = static_cast<double>(logs) + elementary::log(factors) + elementary::log(sum) +
                       elementary::log(scaled) - 0.5 * (r - m) * (r - m);
  return std::min(total, 0.0);
}

}  // namespace

double log_ball_mass(double radius, std::span<const double> mean, double scale) {
  const Index n = std::ssize(mean);
  const double r = radius / scale;
  double largest;
  const double length = length_over_largest<CompensatedSum>(mean, largest);
  const double m = largest / scale * length;
  if (m - r > kFarthest) return -0.5 * kFarthest * kFarthest;
  // P(|N(0, I)| > sqrt(n) + 9) is below 3e-18.
  if (r - m > std::sqrt(static_cast<double>(n)) + 9.0) return 0.0;
  if (m * r < 2e4) return log_bessel_mass(n, r, m);
  return Axial(n, r, m).log_mass();
}

void sample_ball(Source& source, double radius, std::span<const double> mean, double scale,
                 std::span<double> out, std::span<double> work) {
  const Index n = std::ssize(mean);
  assert(out.size() == mean.size() && work.size() == mean.size());
  double r = radius / scale;
  double largest;
  const double length = length_over_largest<double>(mean, largest);
  double m = std::min(largest / scale * length, std::max(kFarthest, 1e10 * r));
  if (standing(static_cast<double>(n), r, m) > -0.5) {
    // The Gaussian is inside with probability of at least 0.3.
    double square;
    do {
      source.fill(random::Variate::gaussian, work);
      square = 0.0;
      for (Index i = 0; i < n; ++i) {
        work[i] += mean[i] / scale;
        square += work[i] * work[i];
      }
    } while (square > r * r);
    for (Index i = 0; i < n; ++i) out[i] = scale * work[i];
    return;
  }
  if (r < kSmallest) {  // without curvature the law depends only on m r and the shape
    m *= r / kSmallest;
    r = kSmallest;
  }
  const double unit = radius / std::min(r, kLargest);
  double across_unit = unit;
  if (r > kLargest) {  // mean outside: u is so small that only u (m - r) and u r matter
    m *= kLargest / r;
    r = kLargest;
    across_unit = scale;
  }
  const Axial axial(n, r, m);
  const double u = axial.sample(source);
  const double along = r - u;
  const double half_square =
      truncated_gamma(source, 0.5 * static_cast<double>(n - 1), axial.limit(u));
  // Writes the axis to `out`, and a Gaussian orthogonal to it to `work`.
  for (Index i = 0; i < n; ++i) {
    out[i] = largest > 0.0 ? (mean[i] / largest) / length : (i == 0 ? 1.0 : 0.0);
  }
  source.fill(random::Variate::gaussian, work);
  double dot = 0.0;
  for (Index i = 0; i < n; ++i) dot += out[i] * work[i];
  double square = 0.0;
  for (Index i = 0; i < n; ++i) {
    work[i] -= dot * out[i];
    square += work[i] * work[i];
  }
  const double across = across_unit * std::sqrt(2.0 * half_square / square);
  double reached = 0.0;
  for (Index i = 0; i < n; ++i) {
    out[i] = unit * along * out[i] + across * work[i];
    const double part = out[i] / radius;
    reached += part * part;
  }
  if (reached > 1.0) {  // rounding at the sphere
    const double shrink = 1.0 / std::sqrt(reached);
    for (Index i = 0; i < n; ++i) out[i] *= shrink;
  }
}

}  // namespace dpoco::samplers
