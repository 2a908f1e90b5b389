#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

enum class SelectionNoise { exponential, gumbel, laplace };

struct NoisyMaxSettings {
  std::uint64_t candidates = 1;
  double scale = 0.0;  // of one noise variate, in units of the scores; 0: no noise
  SelectionNoise noise = SelectionNoise::exponential;
  bool largest = true;  // whether the largest or the smallest score is sought
};

// Report noisy max: adds independent noise to every score in its favour and releases the index of
// the best one. If one record moves all scores by amounts within an interval of length r, the index
// is (r / scale)-private (docs/privacy/noisy_max.md). With Gumbel noise the law of the index is the
// exponential mechanism, with one-sided exponential noise it is permute-and-flip. No tail of the
// noise is truncated.
class NoisyMax {
 public:
  // Throws std::invalid_argument unless candidates >= 1 and scale is finite and >= 0.
  explicit NoisyMax(NoisyMaxSettings settings);

  const NoisyMaxSettings& settings() const noexcept { return settings_; }

  // Returns the index chosen for `candidates` scores; a score that is not finite counts as 0. Draws
  // one variate per candidate, none for a single candidate or without noise. O(candidates).
  std::size_t select(std::span<const double> scores, random::Source& source);
  // Returns an index drawn uniformly, as the winner of a race of `candidates` exponentials; for
  // choices that use no data.
  std::size_t uniform(random::Source& source);

 private:
  NoisyMaxSettings settings_;
  std::vector<double> scratch_;
};

}  // namespace dpoco::mechanisms
