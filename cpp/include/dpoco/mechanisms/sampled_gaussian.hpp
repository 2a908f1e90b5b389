#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// Again and again the noisy vector of one record of n, drawn uniformly and anew each time. The
// index must stay secret, like the noise: the privacy of a step rests on nobody knowing whose it
// was.
class SampledGaussian {
 public:
  // scale 0: no noise. With a grid, a power of two, vectors are rounded to its multiples and the
  // noise is ideal noise rounded to them (docs/privacy/lattice.md). Throws std::invalid_argument
  // for records < 1, dimension < 1, a scale that is negative or not finite, or a grid that does not
  // suit it.
  SampledGaussian(std::uint64_t records, Index dimension, double scale, double grid = 0.0);

  // Every index with probability exactly 1/n. The number of words drawn does not depend on data.
  std::uint64_t draw(random::Source& source) const {
    std::uint64_t word = source.word();
    while (word > last_) word = source.word();
    return word % records_;
  }

  // x + N(0, scale^2 I), rounded as by make_additive_noise; out may be x. The same values as that
  // mechanism's, for millions of short vectors.
  void release(const double* x, random::Source& source, double* out);
  // What noise is added to: x, on the grid if there is one. Not a release; out may be x.
  void admit(const double* x, double* out) const;

  std::uint64_t records() const noexcept { return records_; }
  // Throws std::logic_error if integers are drawn with another.
  double scale() const;
  double grid() const noexcept { return grid_; }

 private:
  void release_exactly(const double* x, random::Source& source, double* out);

  std::uint64_t records_;
  std::uint64_t last_;  // words up to here fall evenly on the indices
  double scale_;
  double step_ = 0.0;  // of what is released
  double inverse_ = 0.0;
  double grid_;  // of what noise is added to; 0 for doubles
  std::optional<noise::RoundedGaussian> rounded_;
  std::vector<double> noise_;
};

}  // namespace dpoco::mechanisms
