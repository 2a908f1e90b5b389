#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpoco::noise {

// Natural numbers of any size, for comparisons that machine words leave undecided. They are needed
// once in millions of draws, so the code is short rather than fast.
class Natural {
 public:
  Natural() = default;
  explicit Natural(std::uint64_t value);
  static Natural power_of_two(std::size_t exponent) { return Natural(1) << exponent; }

  bool is_zero() const noexcept { return limbs_.empty(); }
  std::size_t bit_length() const noexcept;
  // The number if it is below 2^64; otherwise its lowest 64 bits.
  std::uint64_t low_word() const noexcept;

  Natural operator+(const Natural& other) const;
  Natural operator-(const Natural& other) const;  // other must not be larger
  Natural operator*(const Natural& other) const;
  Natural operator/(const Natural& other) const;  // rounded down; other must not be zero
  Natural operator<<(std::size_t bits) const;
  Natural operator>>(std::size_t bits) const;
  bool operator<(const Natural& other) const noexcept;
  bool operator<=(const Natural& other) const noexcept { return !(other < *this); }

 private:
  void trim();
  std::vector<std::uint32_t> limbs_;  // lowest first, no leading zeros
};

// An enclosure of 2^bits exp(-x), x = numerator / denominator >= 0. `lower` is the floor or one
// less: lower <= 2^bits exp(-x) <= upper = lower + 3.
struct Enclosure {
  Natural lower;
  Natural upper;
};
Enclosure enclose_exp(const Natural& numerator, const Natural& denominator, std::size_t bits);

}  // namespace dpoco::noise
