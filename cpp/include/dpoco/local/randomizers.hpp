#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/random/source.hpp"

namespace dpoco::local {

// Laws of private reports as integers over 2^53, and exact draws from them. Noise words come from a
// `random::Source`, never from public coins. docs/privacy/local_randomizers.md proves that no
// likelihood ratio exceeds e^epsilon.

inline constexpr std::uint64_t kUnits = 1ULL << 53;
inline constexpr double kLargestEpsilon = 30.0;

// One bit with P(b = 1) = (1 + tanh(epsilon / 2) phi) / 2: b = [U < k], U a uniform 53-bit integer.
class BitLaw {
 public:
  // Throws std::invalid_argument for epsilon not in (0, 30].
  explicit BitLaw(double epsilon);

  std::uint64_t low() const noexcept { return kUnits - high_; }
  std::uint64_t high() const noexcept { return high_; }
  // (high - low) / 2^53: tanh(epsilon / 2) as sampled.
  double contrast() const noexcept;

  // k: phi clamped to [-1, 1], 0 if it is not finite; 2^52 + phi (high - 2^52), rounded half to
  // even; always in [low, high].
  std::uint64_t threshold(double phi) const noexcept;

  static bool draw(std::uint64_t threshold, random::Source& source) {
    return (source.word() >> 11) < threshold;
  }

 private:
  std::uint64_t high_;
};

// A subset of `size` labels that contains the own label with probability inside / 2^53, and is
// otherwise uniform.
class SubsetLaw {
 public:
  // Throws std::invalid_argument unless 1 <= size < labels < 2^31 and epsilon is in (0, 30].
  SubsetLaw(std::uint64_t labels, std::uint64_t size, double epsilon);

  std::uint64_t labels() const noexcept { return labels_; }
  std::uint64_t size() const noexcept { return size_; }
  // Numerator over 2^53. It is 0 if epsilon is too small for 53 bits: then every report is a
  // uniform subset, whatever the label.
  std::uint64_t inside() const noexcept { return inside_; }

  // Writes the report on label `own`, ascending. A label outside [0, labels) gives a uniform
  // subset. Uses size + 1 words whatever the label, except for rejections with probability below
  // size labels 2^-64. O(size), plus O(labels / 64) for a large size.
  void draw(std::int64_t own, random::Source& source, std::span<std::int64_t> report);

 private:
  void choose(std::uint64_t n, std::uint64_t count, random::Source& source);
  void choose_few(std::uint64_t n, std::uint64_t count, random::Source& source);

  std::uint64_t labels_;
  std::uint64_t size_;
  std::uint64_t inside_;
  std::vector<std::uint64_t> marks_;   // one bit per label; empty for a small size
  std::vector<std::uint64_t> chosen_;  // ascending
};

}  // namespace dpoco::local
