#include "dpoco/noise/discrete.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"
#include "natural.hpp"

namespace dpoco::noise {
namespace {

constexpr double kLn2 = elementary::kLn2Hi + elementary::kLn2Lo;
constexpr std::uint64_t kMagnitude = (1ULL << 63) - 1;
constexpr std::int64_t kFarthest = 1LL << 62;
// From scale 2^20 on, blocks are so short that a scale has at least 2^9 of them. Then the law
// within a block is flat to 2^-9, and doubles represent every block number with bits to spare.
constexpr int kBlocks = 9;
constexpr int kFirstBlocked = 20;
// With fewer leading digits than this, -log is too coarse for `margin_`. This occurs once in 2^16
// draws.
constexpr std::uint64_t kFewestDigits = 1ULL << 47;

// A ratio of doubles as a ratio of integers.
struct Fraction {
  Natural numerator;
  Natural denominator;
};

Fraction to_fraction(Ratio ratio) {
  int up = 0;
  int down = 0;
  const double top = std::frexp(ratio.numerator, &up);
  const double bottom = std::frexp(ratio.denominator, &down);
  Natural numerator(static_cast<std::uint64_t>(top * 0x1p53));
  Natural denominator(static_cast<std::uint64_t>(bottom * 0x1p53));
  const int shift = up - down;
  if (shift >= 0) return {numerator << static_cast<std::size_t>(shift), denominator};
  return {numerator, denominator << static_cast<std::size_t>(-shift)};
}

// A uniform in [0, 1) of which some binary digits are known: it lies in [digits, digits + 1]
// 2^-bits.
struct Expansion {
  Natural digits;
  std::size_t bits;

  template <class Words>
  void extend(Words& words) {
    digits = (digits << 64) + Natural(words.word());
    bits += 64;
  }

  // Returns whether exp(-numerator / denominator) > this uniform.
  template <class Words>
  bool is_below_exp(Words& words, const Natural& numerator, const Natural& denominator) {
    if (numerator.is_zero()) return true;
    for (;; extend(words)) {
      const Enclosure e = enclose_exp(numerator, denominator, bits);
      if (digits + Natural(1) <= e.lower) return true;
      if (e.upper <= digits) return false;
    }
  }

  // Returns whether this uniform is below 2 q^k / (1 + q), q = exp(-1 / scale).
  template <class Words>
  bool is_below_tail(Words& words, std::uint64_t k, const Fraction& scale) {
    const Natural exponent = Natural(k) * scale.denominator;
    for (;; extend(words)) {
      const Enclosure q = enclose_exp(scale.denominator, scale.numerator, bits);
      const Enclosure power = enclose_exp(exponent, scale.numerator, bits);
      const Natural one = Natural::power_of_two(bits);
      if ((digits + Natural(1)) * (one + q.upper) <= (power.lower << (bits + 1))) return true;
      if ((power.upper << (bits + 1)) <= digits * (one + q.lower)) return false;
    }
  }

  // Returns a double within 2^-43 + 2^-48 |x| of x = -log of this uniform. Reads words until 48
  // digits are significant.
  template <class Words>
  double minus_log(Words& words) {
    while (digits.bit_length() < 48) extend(words);
    const std::size_t length = digits.bit_length();
    const std::size_t dropped = length > 53 ? length - 53 : 0;
    const double leading = static_cast<double>((digits >> dropped).low_word());
    const double exponent = static_cast<double>(bits) - static_cast<double>(dropped);
    return exponent * kLn2 - elementary::log(leading);
  }
};

double require_scale(Ratio scale) {
  const double value = scale.value();
  const bool normal = scale.numerator >= 0x1p-1022 && scale.denominator >= 0x1p-1022;
  if (!(normal && value >= kSmallestScale && value <= kLargestScale)) {
    throw std::invalid_argument("the scale of discrete noise must be in [2^-10, 2^50]");
  }
  return value;
}

// Below this scale, Laplace proposals of scale 2 s^2 are kept more often than those of scale s.
constexpr double kLargestSmall = 0.875;

// A double above 2 s^2 for an s that carries three rounding errors.
double above_twice_square(double s) {
  const double above = 2.0 * s * s * (1.0 + 0x1p-48);
  return above > kSmallestScale ? above : kSmallestScale;
}

// Returns 1 if log U > log_p for the uniform U that a kernel returns as u, -1 if log U < log_p, and
// 0 if doubles cannot decide: u is within 2^-65 + 2^-53 U of U, and its logarithm has a relative
// error of 2^-51.
int compare(double u, double log_p) {
  if (!(log_p > -700.0)) return 1;  // no kernel goes as far
  const double difference = elementary::log(u) - log_p;
  const double margin = 0x1p-50 * (1.0 - log_p) + 0x1p-64 / u;
  if (difference > margin) return 1;
  return difference < -margin ? -1 : 0;
}

}  // namespace

bool is_below_exp(const random::Digits& uniform, double log_p, Decisions decisions) {
  if (decisions == Decisions::fast) {
    const int sign = compare(random::to_uniform(uniform.word, 64, uniform.further).value, log_p);
    if (sign != 0) return sign < 0;
  }
  struct {
    std::span<const std::uint64_t> words;
    std::size_t used = 0;
    std::uint64_t word() { return used < words.size() ? words[used++] : 0; }
  } further{uniform.further};
  const Fraction power = to_fraction({-log_p, 1.0});
  return Expansion{Natural(uniform.word), 64}.is_below_exp(further, power.numerator,
                                                           power.denominator);
}

bool bernoulli_exp(Source& source, double log_p) {
  const int sign = compare(source.uniform(), log_p);
  if (sign != 0) return sign < 0;
  const std::uint64_t place = source.position(random::Variate::uniform) - 1;
  return is_below_exp(source.digits_at(random::Variate::uniform, place), log_p, Decisions::exact);
}

std::uint64_t WordTape::word() {
  if (used_ == words_.size()) throw std::out_of_range("the tape of words has ended");
  return words_[used_++];
}

DiscreteLaplace::DiscreteLaplace(Ratio scale, Decisions decisions)
    : scale_(scale), exact_(decisions == Decisions::exact) {
  const double s = require_scale(scale);
  const int exponent = std::ilogb(s);
  block_bits_ = exponent < kFirstBlocked ? 0 : static_cast<unsigned>(exponent - kBlocks);
  blocks_ = s / static_cast<double>(1ULL << block_bits_);
  // Without blocks, |n| >= k has probability 2 q^k / (1 + q). With blocks, a block number >= k has
  // probability q^k.
  const double shared = elementary::log1p(elementary::exp(-1.0 / s));
  origin_ = 63.0 * kLn2 + (block_bits_ == 0 ? kLn2 - shared : 0.0);
  margin_ = blocks_ * 0x1p-42;
  inverse_ = 1.0 / s;
}

// Returns the number of whole blocks; negative if doubles cannot decide.
std::int64_t DiscreteLaplace::plain_blocks(std::uint64_t digits, double log_digits) const {
  const double x = blocks_ * (origin_ - log_digits);
  const auto k = static_cast<std::int64_t>(x);
  const double beyond = x - static_cast<double>(k);
  const bool enough = digits >= kFewestDigits;
  return enough && beyond > margin_ && beyond < 1.0 - margin_ ? k : -1;
}

template <class Words>
std::int64_t DiscreteLaplace::whole_blocks(Words& words, std::uint64_t digits) const {
  if (!exact_) {
    const std::int64_t k = plain_blocks(digits, elementary::log(static_cast<double>(digits)));
    if (k >= 0) return k;
  }
  return whole_blocks_exactly(words, digits);
}

template <class Words>
std::int64_t DiscreteLaplace::whole_blocks_exactly(Words& words, std::uint64_t digits) const {
  Expansion uniform{Natural(digits), 63};
  const double x = blocks_ * (uniform.minus_log(words) + (origin_ - 63.0 * kLn2));
  const double first = x - (margin_ + x * 0x1p-44) - (exact_ ? 2.0 : 0.0);
  const double last = static_cast<double>(kFarthest >> block_bits_);
  if (first >= last) return kFarthest >> block_bits_;
  Fraction scale = to_fraction(scale_);
  std::uint64_t k = first > 0.0 ? static_cast<std::uint64_t>(first) : 0;
  if (block_bits_ == 0) {
    while (uniform.is_below_tail(words, k + 1, scale)) ++k;
  } else {
    scale.denominator = scale.denominator << block_bits_;
    while (uniform.is_below_exp(words, Natural(k + 1) * scale.denominator, scale.numerator)) ++k;
  }
  return static_cast<std::int64_t>(k);
}

// Returns 1 if an offset within a block is kept, -1 if not, 0 if doubles cannot decide.
int DiscreteLaplace::plainly_keeps(std::uint64_t offset, std::uint64_t digits) const {
  const unsigned bits = 64 - block_bits_;
  const double x = static_cast<double>(offset) * inverse_;  // below 2^-9
  const double unit = 1.0 / static_cast<double>(1ULL << bits);
  const double v = static_cast<double>(digits) * unit;
  // 1 - x < exp(-x) < 1 - x + x^2 / 2. The four units cover what `is_below_exp` decides with these
  // digits.
  if (v + 4.0 * unit < 1.0 - x - 0x1p-45) return 1;
  return v - 4.0 * unit > 1.0 - x + 0.5 * x * x + 0x1p-45 ? -1 : 0;
}

template <class Words>
bool DiscreteLaplace::keeps(Words& words, std::uint64_t offset, std::uint64_t digits) const {
  const int kept = exact_ ? 0 : plainly_keeps(offset, digits);
  if (kept != 0) return kept > 0;
  Expansion uniform{Natural(digits), 64 - block_bits_};
  const Fraction scale = to_fraction(scale_);
  return uniform.is_below_exp(words, Natural(offset) * scale.denominator, scale.numerator);
}

template <class Words>
std::int64_t DiscreteLaplace::draw(Words& words) const {
  for (;;) {
    const std::uint64_t word = words.word();
    std::int64_t magnitude = whole_blocks(words, word & kMagnitude);
    const bool negative = (word >> 63) != 0;
    if (block_bits_ > 0) {
      std::uint64_t offset = 0;
      std::uint64_t inner = 0;
      do {
        inner = words.word();
        offset = inner >> (64 - block_bits_);
      } while (!keeps(words, offset, inner & (~0ULL >> block_bits_)));
      magnitude = (magnitude << block_bits_) + static_cast<std::int64_t>(offset);
      if (negative && magnitude == 0) continue;  // keeps one of the two zeros
      if (magnitude > kFarthest) magnitude = kFarthest;
    }
    return negative ? -magnitude : magnitude;
  }
}

bool DiscreteLaplace::plainly_draws(std::span<const std::uint64_t> words, double log_digits,
                                    std::int64_t& out) const {
  std::int64_t magnitude = plain_blocks(words[0] & kMagnitude, log_digits);
  if (magnitude < 0) return false;
  if (block_bits_ > 0) {
    const std::uint64_t offset = words[1] >> (64 - block_bits_);
    if (plainly_keeps(offset, words[1] & (~0ULL >> block_bits_)) <= 0) return false;
    magnitude = (magnitude << block_bits_) + static_cast<std::int64_t>(offset);
    if (magnitude == 0) return false;  // one of the two zeros is rejected
  }
  out = (words[0] >> 63) != 0 ? -magnitude : magnitude;
  return true;
}

void DiscreteLaplace::draw_many(Source& source, std::span<std::int64_t> out) const {
  const std::size_t taken = block_bits_ > 0 ? 2 : 1;  // words per draw, in nearly all cases
  std::uint64_t words[simd::kSuperblock];
  double logs[simd::kSuperblock];
  const std::span<const std::uint64_t> read = words;
  while (!out.empty()) {
    const std::size_t at_hand =
        exact_ ? 0 : std::min(source.words_at_hand(words) / taken, out.size());
    for (std::size_t i = 0; i < at_hand; ++i) {
      logs[i] = static_cast<double>(static_cast<std::int64_t>(words[i * taken] & kMagnitude));
    }
    simd::kernels().log(logs, at_hand, logs);
    std::size_t drawn = 0;
    while (drawn < at_hand &&
           plainly_draws(read.subspan(drawn * taken, taken), logs[drawn], out[drawn])) {
      ++drawn;
    }
    source.skip_words(drawn * taken);
    if (drawn < out.size()) out[drawn++] = draw(source);
    out = out.subspan(drawn);
  }
}

DiscreteGaussian::DiscreteGaussian(Ratio scale, Decisions decisions)
    : scale_(scale),
      small_(require_scale(scale) < kLargestSmall),
      proposal_(small_ ? Ratio{above_twice_square(scale.value())} : scale, decisions),
      exact_(decisions == Decisions::exact),
      inverse_(1.0 / scale.value()),
      proposal_rate_(1.0 / proposal_.scale().value()) {}

template <class Words>
bool DiscreteGaussian::keeps(Words& words, std::uint64_t magnitude) const {
  const std::uint64_t word = words.word();
  const double n = static_cast<double>(magnitude);
  const double ratio = n * inverse_;
  const double beyond = ratio - 1.0;
  const double y =
      small_ ? 0.5 * ratio * ratio - n * proposal_rate_ : 0.5 * beyond * beyond;  // both >= 0
  const double p = elementary::exp(-y);
  const double v = static_cast<double>(word >> 11) * 0x1p-53;
  const double margin = (1.0 + ratio) * (1.0 + ratio) * 0x1p-46;
  if (!exact_ && v + margin < p) return true;
  if (!exact_ && v > p + margin) return false;
  return keeps_exactly(words, magnitude, word);
}

template <class Words>
bool DiscreteGaussian::keeps_exactly(Words& words, std::uint64_t magnitude,
                                     std::uint64_t word) const {
  // s = m / d, t = a / b: (n / s - 1)^2 / 2 = (n d - m)^2 / (2 m^2), and
  // n^2 / (2 s^2) - n / t = n (n d^2 a - 2 m^2 b) / (2 m^2 a), which is not negative for n >= 1.
  Expansion uniform{Natural(word), 64};
  const Fraction scale = to_fraction(scale_);
  const Natural n(magnitude);
  const Natural twice_square = (scale.numerator * scale.numerator) << 1;
  if (small_) {
    const Fraction t = to_fraction(proposal_.scale());
    const Natural gap =
        n * scale.denominator * scale.denominator * t.numerator - twice_square * t.denominator;
    return n.is_zero() || uniform.is_below_exp(words, n * gap, twice_square * t.numerator);
  }
  const Natural product = n * scale.denominator;
  const bool over = scale.numerator < product;
  const Natural gap = over ? product - scale.numerator : scale.numerator - product;
  return uniform.is_below_exp(words, gap * gap, twice_square);
}

template <class Words>
std::int64_t DiscreteGaussian::draw(Words& words) const {
  for (;;) {
    const std::int64_t n = proposal_.draw(words);
    if (keeps(words, static_cast<std::uint64_t>(n < 0 ? -n : n))) return n;
  }
}

template std::int64_t DiscreteLaplace::draw(Source&) const;
template std::int64_t DiscreteLaplace::draw(WordTape&) const;
template std::int64_t DiscreteGaussian::draw(Source&) const;
template std::int64_t DiscreteGaussian::draw(WordTape&) const;

}  // namespace dpoco::noise
