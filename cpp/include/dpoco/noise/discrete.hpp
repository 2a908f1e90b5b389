#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dpoco/random/source.hpp"

namespace dpoco::noise {

using random::Source;

// A given sequence of words that replaces a source, so that tests can steer every decision. Throws
// std::out_of_range at the end of the sequence.
class WordTape {
 public:
  explicit WordTape(std::span<const std::uint64_t> words) : words_(words) {}
  std::uint64_t word();
  std::size_t used() const noexcept { return used_; }

 private:
  std::span<const std::uint64_t> words_;
  std::size_t used_ = 0;
};

// numerator / denominator, exactly, for two doubles: a scale S / epsilon needs no rounding.
struct Ratio {
  double numerator;
  double denominator = 1.0;
  double value() const noexcept { return numerator / denominator; }
};

inline constexpr double kSmallestScale = 0x1p-10;
inline constexpr double kLargestScale = 0x1p50;

// How comparisons are decided. `fast` uses double arithmetic wherever its result is certain;
// `exact` never does and is for tests. Both give the same, exact values.
enum class Decisions { fast, exact };

// Returns whether a uniform variate is below exp(log_p), log_p <= 0. The comparison reads as many
// digits as it needs, so that no probability is rounded.
bool is_below_exp(const random::Digits& uniform, double log_p,
                  Decisions decisions = Decisions::fast);
// As `is_below_exp` for the source's next uniform variate: true with probability exp(log_p).
bool bernoulli_exp(Source& source, double log_p);

// Integer noise with Pr[n] proportional to exp(-|n| / scale). The words, from a Source or a
// WordTape, are the binary digits of uniforms. A uniform is compared with the thresholds of the law
// by as many digits as the comparison needs, so that no probability is rounded. Values beyond 2^62
// (probability below exp(-4000)) become 2^62. Expected O(1).
class DiscreteLaplace {
 public:
  // Throws std::invalid_argument unless the scale lies in [kSmallestScale, kLargestScale].
  explicit DiscreteLaplace(Ratio scale, Decisions decisions = Decisions::fast);

  template <class Words>
  std::int64_t draw(Words& words) const;

  // Writes the same values as repeated calls of `draw`, faster.
  void draw_many(Source& source, std::span<std::int64_t> out) const;

  Ratio scale() const noexcept { return scale_; }

 private:
  std::int64_t plain_blocks(std::uint64_t digits, double log_digits) const;
  int plainly_keeps(std::uint64_t offset, std::uint64_t digits) const;
  bool plainly_draws(std::span<const std::uint64_t> words, double log_digits,
                     std::int64_t& out) const;
  template <class Words>
  std::int64_t whole_blocks(Words& words, std::uint64_t digits) const;
  template <class Words>
  std::int64_t whole_blocks_exactly(Words& words, std::uint64_t digits) const;
  template <class Words>
  bool keeps(Words& words, std::uint64_t offset, std::uint64_t digits) const;

  Ratio scale_;
  bool exact_;
  unsigned block_bits_;  // values are block 2^block_bits + offset
  double blocks_;        // scale / 2^block_bits
  double origin_;        // origin for -log of an integer of 63 random bits
  double margin_;
  double inverse_;  // 1 / scale
};

// Integer noise with Pr[n] proportional to exp(-n^2 / (2 scale^2)); no probability is rounded.
// Rejection from discrete Laplace values of a scale t. With t = scale, a value is kept with
// probability exp(-(|n| / scale - 1)^2 / 2); small scales use a t just above 2 scale^2 and the
// probability exp(|n| / t - n^2 / (2 scale^2)). The probability is at least 0.66 on average.
class DiscreteGaussian {
 public:
  explicit DiscreteGaussian(Ratio scale, Decisions decisions = Decisions::fast);

  template <class Words>
  std::int64_t draw(Words& words) const;

 private:
  template <class Words>
  bool keeps(Words& words, std::uint64_t magnitude) const;
  template <class Words>
  bool keeps_exactly(Words& words, std::uint64_t magnitude, std::uint64_t word) const;

  Ratio scale_;
  bool small_;
  DiscreteLaplace proposal_;
  bool exact_;
  double inverse_;
  double proposal_rate_;  // 1 / t
};

extern template std::int64_t DiscreteLaplace::draw(Source&) const;
extern template std::int64_t DiscreteLaplace::draw(WordTape&) const;
extern template std::int64_t DiscreteGaussian::draw(Source&) const;
extern template std::int64_t DiscreteGaussian::draw(WordTape&) const;

// Fills `out` with the next values, which do not depend on how the draws are split into calls.
template <class Law, class Words>
void fill(const Law& law, Words& words, std::span<std::int64_t> out) {
  for (std::int64_t& each : out) each = law.draw(words);
}

}  // namespace dpoco::noise
