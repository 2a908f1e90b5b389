#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dpoco/simd/kernels.hpp"

// Laws of the elementary variates beyond the resolution of 64 binary digits: docs/privacy/noise.md.

namespace dpoco::random {

// The elementary variates. Each kind of a stream reads its own ChaCha20 nonce, so that drawing one
// kind never moves another, and the i-th variate of a kind is a pure function of (key, stream, i).
enum class Variate : unsigned { word, uniform, gaussian, exponential, laplace, gumbel };
inline constexpr std::size_t kVariates = 6;
// Positions are below 2^61. Every word of a kind has separate places for its further digits, and
// the counters of these places are then below 2^64.
inline constexpr std::uint64_t kPositions = 1ULL << 61;

// A word and the words that continue its binary digits: a function of (key, stream, kind, place).
struct Digits {
  static constexpr std::size_t kFurther = simd::kSuperblock / 2;

  std::uint64_t word;
  std::array<std::uint64_t, kFurther> further;
};

// A uniform variate in (0, 1), given by its distances from both ends. The smaller distance, however
// small, has a relative error of at most 2^-17 against infinitely many digits.
struct Uniform {
  double value;
  double complement;
};
// The uniform variate whose first `bits` binary digits are those of `word` < 2^bits.
Uniform to_uniform(std::uint64_t word, unsigned bits, std::span<const std::uint64_t> further);

// The variate of a word and its further digits; for the Gaussian kind, the radius of a pair. It
// agrees with the kernels up to rounding, except at the ends of a law, which 64 digits cannot
// resolve.
double to_variate(Variate kind, std::uint64_t word, std::span<const std::uint64_t> further);

// Returns whether a kernel may have computed a value from a word too close to an end of its law.
bool may_be_open(Variate kind, std::span<const double> values);

// Replaces such values of a superblock, whose words are `raw`, by the values that the further
// digits of their words determine. `digits` returns the digits of a place in the superblock and is
// called for such places only.
void mend(Variate kind, std::span<const std::uint64_t, simd::kSuperblock> raw,
          std::span<double, simd::kSuperblock> values,
          const std::function<Digits(std::size_t)>& digits);

}  // namespace dpoco::random
