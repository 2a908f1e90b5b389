#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dpoco/noise/discrete.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::noise {

// Further binary digits of the two uniforms behind a pair of Gaussian variates, beyond those of its
// words. The digits are a function of the pair, so that both members belong to one point of the
// plane, however many digits decide each of them.
class PairDigits {
 public:
  static constexpr std::size_t kWords = random::Source::kPairDigits / 2;  // of either uniform

  // The digits of the pair that contains the source's Gaussian variate at `position`.
  PairDigits(const Source& source, std::uint64_t position);
  // Given words of digits for tests, alternately for radius and angle; all others are zero.
  explicit PairDigits(std::span<const std::uint64_t> words);
  ~PairDigits();
  PairDigits(const PairDigits&) = delete;
  PairDigits& operator=(const PairDigits&) = delete;

  // 64 digits each; zeros beyond kWords.
  std::uint64_t radius(std::size_t i) { return word(2 * i); }
  std::uint64_t angle(std::size_t i) { return word(2 * i + 1); }
  // 1 + the last word asked for.
  std::size_t used() const noexcept { return used_; }

 private:
  std::uint64_t word(std::size_t at);

  std::array<std::uint64_t, 2 * kWords> words_{};
  std::size_t used_ = 0;
};

// Nearest integers of scale Z for ideal normal variates Z: no probability is rounded. Z is the
// Box-Muller transform of two uniforms whose first 64 (angle: 62) binary digits are the words
// behind the source's Gaussian variates. Where these do not determine the nearest integer, further
// digits come from PairDigits. Proof: docs/privacy/lattice.md.
class RoundedGaussian {
 public:
  // The largest scale: with a larger one, double arithmetic would leave too many values undecided.
  static constexpr double kLargestScale = 0x1p30;
  static constexpr double kSmallestScale = 0x1p10;

  // Throws std::invalid_argument unless the scale lies in [kSmallestScale, kLargestScale].
  explicit RoundedGaussian(double scale);

  double scale() const noexcept { return scale_; }

  // Fills `out` with the next values, integers as doubles. They do not depend on how the draws are
  // split into calls.
  void fill(Source& source, std::span<double> out) const;

  // One value from its words: `radius`, and `angle` of which it is the cosine or the sine. With
  // Decisions::exact every comparison is decided in integers, for tests.
  std::int64_t resolve(random::PairWords pair, PairDigits& more,
                       Decisions decisions = Decisions::fast) const;

 private:
  double scale_;
};

}  // namespace dpoco::noise
