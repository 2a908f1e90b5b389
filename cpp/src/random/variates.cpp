#include "dpoco/random/variates.hpp"

#include <algorithm>
#include <cmath>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::random {
namespace {

// A word this close to an end of its range has too few digits. Exactly these words are mended: 2^17
// of 2^64 (Laplace: of 2^63).
constexpr std::uint64_t kFewest = 1ULL << 16;
// The largest number of further words of a uniform. More would be needed with probability 2^-960.
constexpr std::size_t kMostZeros = 14;

// Bounds beyond which a kernel's value may come from a word near an end. For Gaussians, the larger
// of a pair may belong to a long radius, and the smaller to a short one.
struct Inner {
  double low;
  double high;
  bool absolute;
};

Inner inner_law(Variate kind) noexcept {
  constexpr double kLn2 = elementary::kLn2Hi + elementary::kLn2Lo;
  switch (kind) {
    case Variate::uniform:
      return {0x1p-48, 2.0, false};
    case Variate::exponential:
      return {0x1p-48, 48.0 * kLn2, false};
    case Variate::laplace:
      return {0x1p-47, 47.0 * kLn2, true};
    case Variate::gumbel:
      return {-3.504, 48.0 * kLn2, false};  // -log(48 ln 2) = -3.5049
    default:
      return {0x1p-23, 5.75, true};  // sqrt(2 * 48 ln 2) / sqrt 2 = 5.768
  }
}

}  // namespace

Uniform to_uniform(std::uint64_t word, unsigned bits, std::span<const std::uint64_t> further) {
  const std::uint64_t last = bits == 64 ? ~0ULL : (1ULL << bits) - 1;
  const bool upper = word > last / 2;
  std::uint64_t near = upper ? last - word : word;
  double unit = std::ldexp(1.0, -static_cast<int>(bits));
  std::size_t at = 0;
  const auto following = [&] { return upper ? ~further[at++] : further[at++]; };
  while (near == 0 && at < std::min(further.size(), kMostZeros)) {
    near = following();
    unit *= 0x1p-64;
  }
  double rest = 0.5;
  if (near < kFewest && at < further.size()) {
    rest = (static_cast<double>(following()) + 0.5) * 0x1p-64;
  }
  const double distance = (static_cast<double>(near) + rest) * unit;
  return upper ? Uniform{1.0 - distance, distance} : Uniform{distance, 1.0 - distance};
}

double to_variate(Variate kind, std::uint64_t word, std::span<const std::uint64_t> further) {
  const bool signless = kind != Variate::laplace;
  const Uniform u = signless ? to_uniform(word, 64, further) : to_uniform(word >> 1, 63, further);
  if (kind == Variate::uniform) return u.value;
  const double exponential =
      u.value < u.complement ? -elementary::log(u.value) : -elementary::log1p(-u.complement);
  switch (kind) {
    case Variate::gaussian:
      return std::sqrt(2.0 * exponential);
    case Variate::gumbel:
      return -elementary::log(exponential);
    case Variate::laplace:
      return (word & 1) != 0 ? -exponential : exponential;
    default:
      return exponential;
  }
}

bool may_be_open(Variate kind, std::span<const double> values) {
  const Inner inner = inner_law(kind);
  return simd::kernels().any_outside(values.data(), values.size(), inner.low, inner.high,
                                     inner.absolute);
}

void mend(Variate kind, std::span<const std::uint64_t, simd::kSuperblock> raw,
          std::span<double, simd::kSuperblock> values,
          const std::function<Digits(std::size_t)>& digits) {
  constexpr std::size_t kHalf = simd::kSuperblock / 2;
  const std::uint64_t few = kind == Variate::laplace ? 2 * kFewest : kFewest;  // a bit is the sign
  const bool pairs = kind == Variate::gaussian;
  // Near 1 a uniform is a rounded double anyway, so the kernel's value stays.
  const bool lower_only = kind == Variate::uniform;
  for (std::size_t i = 0; i < (pairs ? kHalf : simd::kSuperblock); ++i) {
    if (raw[i] >= few && (lower_only || ~raw[i] >= few)) continue;
    const Digits known = digits(i);
    const double value = to_variate(kind, known.word, known.further);
    if (pairs) {
      const double longer = value / to_variate(kind, known.word, {});
      values[i] *= longer;
      values[i + kHalf] *= longer;
    } else {
      values[i] = value;
    }
  }
}

}  // namespace dpoco::random
