#pragma once

// exp, log and powers from + - * / and integer operations only. Results have the same bits on every
// compiler and instruction set, which libm does not provide. The functions are branch-free, so
// loops over them vectorise.
//
// Files compiled for different instruction sets include this header. Everything here is forced
// inline, so that the linker cannot pick an out-of-line copy built for a wider set.

#include <cstdint>

#if defined(_MSC_VER)
#define DPOCO_INLINE static __forceinline
#else
#define DPOCO_INLINE static inline __attribute__((always_inline))
#endif

namespace dpoco::elementary {

DPOCO_INLINE std::uint64_t to_bits(double x) {
  std::uint64_t b;
  __builtin_memcpy(&b, &x, sizeof b);
  return b;
}

DPOCO_INLINE double from_bits(std::uint64_t b) {
  double x;
  __builtin_memcpy(&x, &b, sizeof x);
  return x;
}

inline constexpr double kLn2Hi = 6.93147180369123816490e-01;  // ln 2 with 21 trailing zero bits
inline constexpr double kLn2Lo = 1.90821492927058770002e-10;
inline constexpr double kRoundMagic = 6755399441055744.0;  // 1.5 * 2^52

// log(1 + f) + k ln 2 for 1 + f in [sqrt(1/2), sqrt(2)): odd series in s = f / (2 + f).
DPOCO_INLINE double log_reduced(double f, double k) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double t1 = w * (3.999999999940941908e-01 +
                         w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double t2 = z * (6.666666666666735130e-01 +
                         w * (2.857142874366239149e-01 +
                              w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  return k * kLn2Hi - ((half_square - (s * (half_square + (t1 + t2)) + k * kLn2Lo)) - f);
}

// Splits x > 0 (normal) as (1 + f) 2^k with 1 + f in [sqrt(1/2), sqrt(2)).
DPOCO_INLINE void split_log(double x, double& f, double& k) {
  // Adding 1 - sqrt(1/2) to the mantissa field moves the exponent at sqrt(2), not at 2.
  const std::uint64_t ix = to_bits(x) + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL);
  const std::uint64_t exponent = ix >> 52;
  const std::uint64_t mantissa = (ix & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL;
  f = from_bits(mantissa) - 1.0;
  // An integer below 2^52 becomes a double by its place in 2^52's mantissa.
  k = from_bits(exponent | 0x4330000000000000ULL) - (4503599627370496.0 + 1023.0);
}

// Natural logarithm of a positive normal number; relative error below 3e-16.
DPOCO_INLINE double log(double x) {
  double f;
  double k;
  split_log(x, f, k);
  return log_reduced(f, k);
}

// ln(1 + f), f > -1, with the relative accuracy of f near 0.
DPOCO_INLINE double log1p(double f) {
  double split;
  double k;
  split_log(1.0 + f, split, k);
  return log_reduced(k == 0.0 ? f : split, k);
}

// exp(x); 0 below -708, infinity above 709; relative error below 3e-16.
DPOCO_INLINE double exp(double x) {
  const double clamped_low = x < -708.0 ? -708.0 : x;
  const double y = clamped_low > 709.0 ? 709.0 : clamped_low;
  const double shifted = y * 1.44269504088896338700e+00 + kRoundMagic;
  const double k = shifted - kRoundMagic;
  const double hi = y - k * kLn2Hi;
  const double lo = k * kLn2Lo;
  const double r = hi - lo;
  const double t = r * r;
  const double c =
      r - t * (1.66666666666666019037e-01 +
               t * (-2.77777777770155933842e-03 +
                    t * (6.61375632143793436117e-05 +
                         t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
  const double m = 1.0 - ((lo - (r * c) / (2.0 - c)) - hi);
  // The low bits of `shifted` hold k in two's complement; 2^k is added to the exponent field.
  const double result = from_bits(to_bits(m) + (to_bits(shifted) << 52));
  const double with_zero = x < -708.0 ? 0.0 : result;
  return x > 709.0 ? from_bits(0x7ff0000000000000ULL) : with_zero;
}

// x^power for x >= 0 and power > 0 (0 for x below the normal range); relative error grows with
// |power log x| times 1e-16.
DPOCO_INLINE double power(double x, double exponent) {
  const bool tiny = x < 2.2250738585072014e-308;
  const double safe = tiny ? 1.0 : x;
  const double value = exp(exponent * log(safe));
  return tiny ? 0.0 : value;
}

// log(1 + exp(x)) without overflow.
DPOCO_INLINE double softplus(double x) {
  const double magnitude = x < 0.0 ? -x : x;
  const double e = exp(-magnitude);
  // log1p(e), e in (0, 1]: exact reduction keeps small e.
  const bool large = e > 0.41421356237309503;
  const double f = large ? 0.5 * (e - 1.0) : e;
  const double k = large ? 1.0 : 0.0;
  return (x > 0.0 ? x : 0.0) + log_reduced(f, k);
}

// 1 / (1 + exp(-x))
DPOCO_INLINE double sigmoid(double x) {
  const double magnitude = x < 0.0 ? -x : x;
  const double e = exp(-magnitude);
  const double upper = 1.0 / (1.0 + e);
  return x < 0.0 ? e * upper : upper;
}

// sin(x) and cos(x) for |x| <= pi / 4; relative error below 3e-16.
DPOCO_INLINE double sine(double x) {
  const double z = x * x;
  return x +
         x * z *
             (-1.66666666666666324348e-01 +
              z * (8.33333333332248946124e-03 +
                   z * (-1.98412698298579493134e-04 +
                        z * (2.75573137070700676789e-06 +
                             z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
}

DPOCO_INLINE double cosine(double x) {
  const double z = x * x;
  return 1.0 - 0.5 * z +
         z * z *
             (4.16666666666666019037e-02 +
              z * (-1.38888888888741095749e-03 +
                   z * (2.48015872894767294178e-05 +
                        z * (-2.75573143513906633035e-07 +
                             z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
}

}  // namespace dpoco::elementary
