#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace dpoco::local {

// The exact product of two words. Needs no type that only some compilers have.
struct Wide {
  std::uint64_t high;
  std::uint64_t low;
};

inline Wide multiply(std::uint64_t x, std::uint64_t y) noexcept {
  const std::uint64_t x0 = x & 0xffffffffU;
  const std::uint64_t x1 = x >> 32;
  const std::uint64_t y0 = y & 0xffffffffU;
  const std::uint64_t y1 = y >> 32;
  const std::uint64_t low = x0 * y0;
  const std::uint64_t middle = x1 * y0 + (low >> 32);
  const std::uint64_t other = x0 * y1 + (middle & 0xffffffffU);
  return {x1 * y1 + (middle >> 32) + (other >> 32), (other << 32) | (low & 0xffffffffU)};
}

// The next integer uniform in [0, n), n >= 1, from a stream of uniform words. Exact, by rejection
// (Lemire, "Fast random integer generation in an interval", 2019).
template <class Next>
std::uint64_t below(std::uint64_t n, Next&& next) {
  Wide product = multiply(next(), n);
  if (product.low < n) {  // otherwise it is also above 2^64 mod n
    const std::uint64_t least = (0 - n) % n;
    while (product.low < least) product = multiply(next(), n);
  }
  return product.high;
}

// The randomness of the questions, which server and devices both compute: SplitMix64 in counter
// mode, one stream per (seed, round, slot). It is public and never used as noise. It must never
// change, because devices in use depend on it, and it must be the same in every language
// (docs/privacy/local_randomizers.md).
class PublicCoins {
 public:
  PublicCoins(std::uint64_t seed, std::uint64_t round, std::uint64_t slot) noexcept
      : state_(mix(seed ^ mix(round * kGamma + slot + 1))) {}

  std::uint64_t word() noexcept { return mix(state_ += kGamma); }
  std::uint64_t below(std::uint64_t n) noexcept {
    return local::below(n, [this] { return word(); });
  }

  // A partial Fisher-Yates shuffle: the first `size` entries of 0..n-1 become a uniform subset, in
  // random order. members: n integers, overwritten.
  void shuffle(std::size_t n, std::size_t size, std::uint32_t* members) noexcept {
    for (std::size_t i = 0; i < n; ++i) members[i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = 0; i < size; ++i) {
      std::swap(members[i], members[i + static_cast<std::size_t>(below(n - i))]);
    }
  }

  // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
  static constexpr std::uint64_t mix(std::uint64_t z) noexcept {
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9ULL;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  static constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15ULL;
  std::uint64_t state_;
};

}  // namespace dpoco::local
