#pragma once

#include <cstddef>
#include <cstdint>

#include "dpoco/noise/discrete.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::noise {

// Nearest integers of scale Z for ideal normal variates Z: no probability is rounded. Z is the
// Box-Muller transform of two uniforms whose first 64 (angle: 62) binary digits are the words
// behind the source's Gaussian variates; further digits come from its words whenever those leave
// the nearest integer open. Proof: docs/privacy/lattice.md.
class RoundedGaussian {
 public:
  // The largest scale: beyond it too many values would be left open by double arithmetic.
  static constexpr double kLargestScale = 0x1p30;
  static constexpr double kSmallestScale = 0x1p10;

  // Throws std::invalid_argument unless the scale lies in [kSmallestScale, kLargestScale].
  explicit RoundedGaussian(double scale);

  // The next n values, integers as doubles; equal however the draws are split.
  void fill(Source& source, double* out, std::size_t n) const;

  // One value from its words: `radius`, and `angle` of which it is the cosine or the sine.
  // Further digits are taken from `more`, a Source or a WordTape. With Decisions::exact every
  // comparison is decided in integers, for tests.
  template <class Words>
  std::int64_t resolve(random::PairWords pair, Words& more,
                       Decisions decisions = Decisions::fast) const;

 private:
  double scale_;
};

extern template std::int64_t RoundedGaussian::resolve(random::PairWords, Source&, Decisions) const;
extern template std::int64_t RoundedGaussian::resolve(random::PairWords, WordTape&,
                                                      Decisions) const;

}  // namespace dpoco::noise
