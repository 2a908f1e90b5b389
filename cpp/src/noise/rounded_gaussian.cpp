#include "dpoco/noise/rounded_gaussian.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"
#include "natural.hpp"

namespace dpoco::noise {
namespace {

constexpr double kLn2 = elementary::kLn2Hi + elementary::kLn2Lo;
constexpr double kHalfPi = 1.5707963267948966;
constexpr unsigned kAngleBits = 62;
constexpr std::uint64_t kAngleMask = (1ULL << kAngleBits) - 1;
constexpr std::size_t kFewestDigits = 48;
// Extra bits of series: their errors are below 2^20 units of the last bit.
constexpr std::size_t kGuard = 32;

// A uniform in [0, 1) of which some binary digits are known: it lies in [digits, digits + 1]
// 2^-bits.
struct Uniform {
  Natural digits;
  std::size_t bits;

  void extend(std::uint64_t word) {
    digits = (digits << 64) + Natural(word);
    bits += 64;
  }
  Natural complement() const { return Natural::power_of_two(bits) - digits - Natural(1); }
  bool in_upper_half() const { return digits.bit_length() == bits; }
};

// About (n + 1/2) 2^-bits.
double as_double(const Natural& n, std::size_t bits) {
  const std::size_t length = n.bit_length();
  const std::size_t dropped = length > 53 ? length - 53 : 0;
  const double leading = static_cast<double>((n >> dropped).low_word());
  const double half = dropped == 0 ? 0.5 : 0.0;
  return std::ldexp(leading + half, static_cast<int>(dropped) - static_cast<int>(bits));
}

// Approximates -log of a uniform that has kFewestDigits significant digits, as does its complement.
double minus_log(const Uniform& u) {
  if (u.in_upper_half()) return -elementary::log1p(-as_double(u.complement(), u.bits));
  const std::size_t zeros = u.bits - u.digits.bit_length();
  const double leading = as_double(u.digits, u.digits.bit_length());
  return static_cast<double>(zeros) * kLn2 - elementary::log(leading);
}

// 2^w atan(1 / q) with an error of at most one unit per term.
Natural inverse_tangent(std::uint64_t q, std::size_t w) {
  Natural power = Natural::power_of_two(w) / Natural(q);
  Natural positive;
  Natural negative;
  for (std::uint64_t k = 0; !power.is_zero(); ++k) {
    Natural& side = k % 2 == 0 ? positive : negative;
    side = side + power / Natural(2 * k + 1);
    power = power / Natural(q * q);
  }
  return positive - negative;
}

// lower <= 2^bits (1 - cos(pi v 2^-places)) <= upper, for v 2^-places at most 1/2.
Enclosure enclose_versine(const Natural& v, std::size_t places, std::size_t bits) {
  const std::size_t w = bits + kGuard;
  const Natural pi = (inverse_tangent(5, w) << 4) - (inverse_tangent(239, w) << 2);  // Machin
  const Natural y = (pi * v) >> places;
  const Natural square = (y * y) >> w;
  Natural term = square >> 1;
  Natural positive;
  Natural negative;
  for (std::uint64_t k = 1; !term.is_zero(); ++k) {
    Natural& side = k % 2 == 1 ? positive : negative;
    side = side + term;
    term = ((term * square) >> w) / Natural((2 * k + 1) * (2 * k + 2));
  }
  const Natural rounded = (positive - negative) >> kGuard;
  const Natural one(1);
  return {rounded.is_zero() ? rounded : rounded - one, rounded + Natural(2)};
}

// A double from 2^10 to 2^30 as numerator / 2^63.
Natural to_numerator(double scale) {
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  return Natural(static_cast<std::uint64_t>(mantissa * 0x1p53))
         << static_cast<std::size_t>(exponent + 10);
}

// |Z| = sqrt(-2 log U) times the cosine or the sine of V pi / 2, measured from the nearer axis.
struct Magnitude {
  Uniform u;
  Uniform v;
  bool cosine;
  double scale;
  PairDigits* more;
  std::size_t radius_words = 0;
  std::size_t angle_words = 0;

  void extend_radius() { u.extend(more->radius(radius_words++)); }
  void extend_angle() { v.extend(more->angle(angle_words++)); }

  double estimate() const {
    const Natural near = v.in_upper_half() ? v.complement() : v.digits;
    const double angle = kHalfPi * as_double(near, v.bits);
    const double part = cosine ? elementary::cosine(angle) : elementary::sine(angle);
    return scale * (std::sqrt(2.0 * minus_log(u)) * part);
  }

  // Returns whether scale |Z| >= k - 1/2. With P = 1 + cos(pi V) for the cosine and 1 - cos(pi V)
  // for the sine, Z^2 = -log(U) P, so this is U <= exp(-(2 k - 1)^2 / (4 scale^2 P)).
  bool reaches(std::uint64_t k) {
    if (k == 0) return true;
    const Natural odd(2 * k - 1);
    const Natural root = to_numerator(scale);
    const Natural square = (root * root) << 2;
    for (;;) {
      const bool upper = v.in_upper_half();
      const Natural near = upper ? v.complement() : v.digits;
      const std::size_t bits = u.bits + 64 + 2 * (v.bits - near.bit_length());
      Natural least = enclose_versine(near, v.bits, bits).lower;
      Natural most = enclose_versine(near + Natural(1), v.bits, bits).upper;
      if (cosine) {
        const Natural two = Natural::power_of_two(bits + 1);
        const Natural swapped = two - least;
        least = two - most;
        most = swapped;
      }
      const Natural top = (odd * odd) << (bits + 126);  // 2^126: the square of the denominator
      if (!least.is_zero() &&
          u.digits + Natural(1) <= enclose_exp(top, square * least, u.bits).lower) {
        return true;
      }
      if (enclose_exp(top, square * most, u.bits).upper <= u.digits) return false;
      extend_radius();
      extend_angle();
    }
  }
};

}  // namespace

PairDigits::PairDigits(const Source& source, std::uint64_t position) {
  source.further_digits(random::Variate::gaussian, position, words_);
}

PairDigits::PairDigits(std::span<const std::uint64_t> words) {
  std::copy_n(words.begin(), std::min(words.size(), words_.size()), words_.begin());
}

PairDigits::~PairDigits() {
  volatile std::uint64_t* secret = words_.data();
  for (std::size_t i = 0; i < words_.size(); ++i) secret[i] = 0;
}

std::uint64_t PairDigits::word(std::size_t at) {
  used_ = std::max(used_, at + 1);
  return at < words_.size() ? words_[at] : 0;
}

RoundedGaussian::RoundedGaussian(double scale) : scale_(scale) {
  if (!(scale >= kSmallestScale && scale <= kLargestScale)) {
    throw std::invalid_argument("the scale of rounded noise must be in [2^10, 2^30]");
  }
}

std::int64_t RoundedGaussian::resolve(random::PairWords pair, PairDigits& more,
                                      Decisions decisions) const {
  // As in the kernel `gaussian`: the quadrant, and whether the nearer axis swaps the pair.
  const std::uint64_t quadrant = pair.angle >> kAngleBits;
  const bool swapped = (((pair.angle >> (kAngleBits - 1)) ^ quadrant) & 1) != 0;
  const bool negative = ((pair.second ? quadrant : quadrant + 1) & 2) != 0;
  const bool exact = decisions == Decisions::exact;
  Magnitude z{{Natural(pair.radius), 64},
              {Natural(pair.angle & kAngleMask), kAngleBits},
              pair.second == swapped,
              scale_,
              &more};
  while (std::min(z.u.digits.bit_length(), z.u.complement().bit_length()) < kFewestDigits &&
         z.radius_words < PairDigits::kWords) {
    z.extend_radius();
  }
  const double about = z.estimate();
  const double margin = about * 0x1p-45 + 0x1p-20;
  const double lowest = about + 0.5 - margin - (exact ? 2.0 : 0.0);
  std::uint64_t k = lowest > 0.0 ? static_cast<std::uint64_t>(lowest) : 0;
  const auto last = static_cast<std::uint64_t>(about + 0.5 + margin);
  while ((exact || k < last) && z.reaches(k + 1)) ++k;
  const auto value = static_cast<std::int64_t>(k);
  return negative ? -value : value;
}

void RoundedGaussian::fill(Source& source, std::span<double> out) const {
  const auto round = simd::kernels().round_gaussians;
  while (!out.empty()) {
    const std::uint64_t first = source.position(random::Variate::gaussian);
    const auto [values, partners] = source.next_gaussians(out.size());
    const std::size_t count = values.size();
    if (!round(scale_, values.data(), partners.data(), count, out.data())) {
      for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(out[i])) {
          const random::PairWords pair = source.words_behind_gaussian(first + i);
          PairDigits further(source, first + i);
          out[i] = static_cast<double>(resolve(pair, further));
        }
      }
    }
    out = out.subspan(count);
  }
}

}  // namespace dpoco::noise
