#pragma once

// Normal and gamma integrals from + - * / sqrt and simd/elementary.hpp only, so results have the
// same bits on every machine. The relative accuracy is about 1e-13 unless a function states
// another.

#include <span>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

inline constexpr double kLogSqrtTwoPi = 0.91893853320467274178;  // ln sqrt(2 pi)
inline constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

// Mills' ratio (1 - Phi(x)) / phi(x) for 0 <= x < infinity. (1 + x) times it is a polynomial in t =
// (x - 5)/(x + 5), its Chebyshev series cut at 2e-17. Branch-free, with relative error below 5e-16.
DPOCO_INLINE double mills_ratio(double x) {
  const double t = 1.0 - 10.0 / (x + 5.0);
  const double s = t * t;
  double even = -7.073898575561589e-10;
  double odd = -9.564832934712551e-10;
  even = even * s + 9.092476134019147e-09;
  odd = odd * s + 1.1032071151574336e-08;
  even = even * s + -6.588974491108954e-08;
  odd = odd * s + -7.758520236786343e-08;
  even = even * s + 3.2054316652589574e-07;
  odd = odd * s + 4.91996233147834e-07;
  even = even * s + -1.7633239265736746e-07;
  odd = odd * s + -3.277287633208865e-06;
  even = even * s + -2.480583845192319e-05;
  odd = odd * s + 2.270961270923768e-05;
  even = even * s + 0.00045704392357953655;
  odd = odd * s + -0.0001343742785571135;
  even = even * s + -0.004201290329187307;
  odd = odd * s + 1.9530638370790786e-05;
  even = even * s + -0.03802659218584139;
  odd = odd * s + 0.01634823128102938;
  even = even * s + -0.0661776007790963;
  odd = odd * s + 0.0615050458401865;
  even = even * s + 0.07778159886873769;
  odd = odd * s + 0.0250721793016388;
  even = even * s + 1.1568486282918946;
  odd = odd * s + -0.22948753825211315;
  return (even + odd * t) / (1.0 + x);
}

// A sum of n terms with an error of 2^-53 of itself plus n^2 2^-105 times the sum of their
// magnitudes (Neumaier).
class CompensatedSum {
 public:
  CompensatedSum& operator+=(double term) {
    const double next = sum_ + term;
    const bool larger = (sum_ < 0.0 ? -sum_ : sum_) >= (term < 0.0 ? -term : term);
    rest_ += larger ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
    return *this;
  }
  explicit operator double() const { return sum_ + rest_; }

 private:
  double sum_ = 0.0;
  double rest_ = 0.0;
};

// sum_i ln(Phi((h_i - m_i)/s) - Phi((-h_i - m_i)/s)): the masses of n intervals [-h_i, h_i] with a
// common scale, in passes that vectorise. Accurate in both tails and for intervals of any length.
// The ln of a probability near 1 keeps its relative accuracy (docs/privacy/gibbs_draws.md).
double log_normal_box(std::span<const double> half_widths, std::span<const double> means,
                      double scale);

// ln Gamma(a) for a > 0, with absolute accuracy near its zeros 1 and 2.
double log_gamma(double a);

// The regularised lower incomplete gamma function P(a, x) for one a > 0.
class IncompleteGamma {
 public:
  explicit IncompleteGamma(double a);

  struct Value {
    double log_p;       // ln P(a, x)
    double elasticity;  // x P'(a, x) / P(a, x): falls from a at x = 0 to 0
  };
  // For finite x > 0. Takes O(sqrt(a)) terms near x = a.
  Value operator()(double x) const;

  double p(double x) const;  // 0 for x <= 0

 private:
  double log_prefactor(double x) const;  // ln(x^a exp(-x) / Gamma(a + 1))

  double a_;
  double log_norm_;  // a >= 10: ln of Gamma(a+1) / (a^a exp(-a)); below: ln Gamma(a + 1)
};

}  // namespace dpoco::samplers
