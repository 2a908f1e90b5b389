#pragma once

#include <cstdint>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// Again and again the noisy vector of one record of n, drawn uniformly and anew each time. The
// index must stay secret, like the noise: the privacy of a step rests on nobody knowing whose it
// was.
class SampledGaussian {
 public:
  // scale 0: no noise. Throws std::invalid_argument for records < 1, dimension < 1, or a scale that
  // is negative or not finite.
  SampledGaussian(std::uint64_t records, Index dimension, double scale);

  // Every index with probability exactly 1/n. The number of words drawn does not depend on data.
  std::uint64_t draw(random::Source& source) const {
    std::uint64_t word = source.word();
    while (word > last_) word = source.word();
    return word % records_;
  }

  // x + N(0, scale^2 I), rounded to the grid of make_additive_noise; out may be x. The same values
  // as that mechanism's, for millions of short vectors.
  void release(const double* x, random::Source& source, double* out);

 private:
  std::uint64_t records_;
  std::uint64_t last_;  // words up to here fall evenly on the indices
  double scale_;
  double grid_ = 0.0;
  double inverse_ = 0.0;
  std::vector<double> noise_;
};

}  // namespace dpoco::mechanisms
