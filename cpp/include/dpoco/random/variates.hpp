#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dpoco/simd/kernels.hpp"

// Laws of the elementary variates beyond what 64 binary digits tell: docs/privacy/noise.md.

namespace dpoco::random {

// The elementary variates. Each kind of a stream reads its own ChaCha20 nonce, so that drawing one
// kind never moves another, and the i-th variate of a kind is a pure function of (key, stream, i).
enum class Variate : unsigned { word, uniform, gaussian, exponential, laplace, gumbel };
inline constexpr std::size_t kVariates = 6;
// Positions are below 2^61, so that the places of further digits, of which every word of a kind has
// its own, have counters below 2^64.
inline constexpr std::uint64_t kPositions = 1ULL << 61;

// A word and the words that continue its binary digits: a function of (key, stream, kind, place).
struct Digits {
  static constexpr std::size_t kFurther = simd::kSuperblock / 2;

  std::uint64_t word;
  std::array<std::uint64_t, kFurther> further;
};

// A uniform variate in (0, 1) by its distances from both ends: the smaller one to relative 2^-17
// of what infinitely many digits would give, however small it is.
struct Uniform {
  double value;
  double complement;
};
// Its first `bits` binary digits are those of `word` < 2^bits.
Uniform to_uniform(std::uint64_t word, unsigned bits, std::span<const std::uint64_t> further);

// The variate of a word and its further digits; of a Gaussian, the radius of its pair. As the
// kernels have it but for roundings, and but for the ends of a law that 64 digits cannot tell.
double to_variate(Variate kind, std::uint64_t word, std::span<const std::uint64_t> further);

// Whether a kernel may have made one of the values from a word too close to an end of its law.
bool may_be_open(Variate kind, std::span<const double> values);

// Replaces such values among those of a superblock, whose words are `raw`, by what the further
// digits of their words say. `digits` of a place in the superblock; asked for such places only.
void mend(Variate kind, std::span<const std::uint64_t, simd::kSuperblock> raw,
          std::span<double, simd::kSuperblock> values,
          const std::function<Digits(std::size_t)>& digits);

}  // namespace dpoco::random
