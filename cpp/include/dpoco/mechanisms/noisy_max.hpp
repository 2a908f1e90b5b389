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

// Report noisy max: the index of the best score after independent noise has been added to each in
// its favour. If one record moves all scores by amounts within an interval of length r, the index
// is (r / scale)-private (docs/privacy/noisy_max.md); Gumbel noise makes it an exponential
// mechanism, one-sided exponential noise has the law of permute-and-flip. Noise has both its tails.
class NoisyMax {
 public:
  // Throws std::invalid_argument unless candidates >= 1 and scale is finite and >= 0.
  explicit NoisyMax(NoisyMaxSettings settings);

  const NoisyMaxSettings& settings() const noexcept { return settings_; }

  // The index chosen for `candidates` scores; one that is not finite counts as 0. One variate per
  // candidate, none for a single candidate or without noise. O(candidates).
  std::size_t select(std::span<const double> scores, random::Source& source);
  // An index drawn uniformly, by a race of as many exponentials; for choices without data.
  std::size_t uniform(random::Source& source);

 private:
  NoisyMaxSettings settings_;
  std::vector<double> scratch_;
};

}  // namespace dpoco::mechanisms
