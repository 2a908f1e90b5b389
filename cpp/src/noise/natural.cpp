#include "natural.hpp"

#include <algorithm>
#include <bit>

namespace dpoco::noise {

Natural::Natural(std::uint64_t value) {
  for (; value > 0; value >>= 32) limbs_.push_back(static_cast<std::uint32_t>(value));
}

void Natural::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
}

std::size_t Natural::bit_length() const noexcept {
  if (limbs_.empty()) return 0;
  return 32 * (limbs_.size() - 1) + static_cast<std::size_t>(std::bit_width(limbs_.back()));
}

std::uint64_t Natural::low_word() const noexcept {
  std::uint64_t word = limbs_.empty() ? 0 : limbs_[0];
  if (limbs_.size() > 1) word |= static_cast<std::uint64_t>(limbs_[1]) << 32;
  return word;
}

Natural Natural::operator+(const Natural& other) const {
  const bool longer = limbs_.size() >= other.limbs_.size();
  Natural sum = longer ? *this : other;
  const Natural& addend = longer ? other : *this;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < sum.limbs_.size() && (carry > 0 || i < addend.limbs_.size()); ++i) {
    carry += sum.limbs_[i];
    if (i < addend.limbs_.size()) carry += addend.limbs_[i];
    sum.limbs_[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  if (carry > 0) sum.limbs_.push_back(static_cast<std::uint32_t>(carry));
  return sum;
}

Natural Natural::operator-(const Natural& other) const {
  Natural rest = *this;
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i < rest.limbs_.size(); ++i) {
    const std::uint64_t take = borrow + (i < other.limbs_.size() ? other.limbs_[i] : 0);
    borrow = take > rest.limbs_[i] ? 1 : 0;
    rest.limbs_[i] = static_cast<std::uint32_t>(rest.limbs_[i] - take);
  }
  rest.trim();
  return rest;
}

Natural Natural::operator*(const Natural& other) const {
  Natural product;
  product.limbs_.assign(limbs_.size() + other.limbs_.size(), 0);
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < other.limbs_.size(); ++j) {
      carry += product.limbs_[i + j] + static_cast<std::uint64_t>(limbs_[i]) * other.limbs_[j];
      product.limbs_[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    product.limbs_[i + other.limbs_.size()] = static_cast<std::uint32_t>(carry);
  }
  product.trim();
  return product;
}

Natural Natural::operator/(const Natural& other) const {
  Natural quotient;
  quotient.limbs_.assign(limbs_.size(), 0);
  if (other.limbs_.size() == 1) {
    std::uint64_t part = 0;
    for (std::size_t i = limbs_.size(); i-- > 0;) {
      part = (part << 32) | limbs_[i];
      quotient.limbs_[i] = static_cast<std::uint32_t>(part / other.limbs_[0]);
      part %= other.limbs_[0];
    }
    quotient.trim();
    return quotient;
  }
  // Divides bit by bit. Each comparison divides at most once, for quotients of a few hundred bits.
  Natural rest;
  for (std::size_t i = bit_length(); i-- > 0;) {
    rest = rest << 1;
    if ((limbs_[i / 32] >> (i % 32)) & 1U) rest = rest + Natural(1);
    if (other <= rest) {
      rest = rest - other;
      quotient.limbs_[i / 32] |= 1U << (i % 32);
    }
  }
  quotient.trim();
  return quotient;
}

Natural Natural::operator<<(std::size_t bits) const {
  if (limbs_.empty()) return *this;
  Natural shifted;
  shifted.limbs_.assign(limbs_.size() + bits / 32 + 1, 0);
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const std::uint64_t moved = static_cast<std::uint64_t>(limbs_[i]) << (bits % 32);
    shifted.limbs_[i + bits / 32] |= static_cast<std::uint32_t>(moved);
    shifted.limbs_[i + bits / 32 + 1] = static_cast<std::uint32_t>(moved >> 32);
  }
  shifted.trim();
  return shifted;
}

Natural Natural::operator>>(std::size_t bits) const {
  Natural shifted;
  const std::size_t skipped = bits / 32;
  for (std::size_t i = skipped; i < limbs_.size(); ++i) {
    std::uint64_t pair = limbs_[i];
    if (i + 1 < limbs_.size()) pair |= static_cast<std::uint64_t>(limbs_[i + 1]) << 32;
    shifted.limbs_.push_back(static_cast<std::uint32_t>(pair >> (bits % 32)));
  }
  shifted.trim();
  return shifted;
}

bool Natural::operator<(const Natural& other) const noexcept {
  if (limbs_.size() != other.limbs_.size()) return limbs_.size() < other.limbs_.size();
  return std::lexicographical_compare(limbs_.rbegin(), limbs_.rend(), other.limbs_.rbegin(),
                                      other.limbs_.rend());
}

Enclosure enclose_exp(const Natural& numerator, const Natural& denominator, std::size_t bits) {
  // exp(-x) = exp(-x / 2^t)^(2^t) with x / 2^t < 1/2. In units of 2^-w, the series has at most w
  // terms with an error below 3 each, and 4 for the argument and the tail. Squaring doubles an
  // error and adds 1. So the error is below 2^t (3 w + 5) units, which is below 2^-bits:
  // docs/privacy.
  const std::size_t over = numerator.bit_length() + 2;
  const std::size_t halvings =
      over > denominator.bit_length() ? over - denominator.bit_length() : 0;
  const std::size_t w = bits + 64 + halvings;
  const Natural x = (numerator << w) / (denominator << halvings);
  Natural term = Natural::power_of_two(w);
  Natural positive = term;
  Natural negative;
  for (std::uint64_t i = 1;; ++i) {
    term = ((term * x) >> w) / Natural(i);
    if (term.is_zero()) break;
    Natural& side = i % 2 == 0 ? positive : negative;
    side = side + term;
  }
  Natural power = positive - negative;
  for (std::size_t i = 0; i < halvings; ++i) power = (power * power) >> w;
  const Natural rounded = power >> (w - bits);
  const Natural one(1);
  return {rounded.is_zero() ? rounded : rounded - one, rounded + Natural(2)};
}

}  // namespace dpoco::noise
