#include "dpoco/mechanisms/noisy_max.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/noise/exponential.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {

NoisyMax::NoisyMax(NoisyMaxSettings settings) : settings_(settings) {
  if (settings_.candidates < 1) throw std::invalid_argument("candidates must be at least 1");
  if (!(settings_.scale >= 0.0) || !std::isfinite(settings_.scale)) {
    throw std::invalid_argument("the noise scale must be finite and at least 0");
  }
}

std::size_t NoisyMax::select(std::span<const double> scores, random::Source& source) {
  const std::size_t n = settings_.candidates;
  assert(scores.size() == n);
  if (n == 1) return 0;
  scratch_.resize(n);  // at first use, so that a state file cannot claim memory
  const std::span<double> noise = scratch_;
  double scale = settings_.scale;
  if (settings_.noise == SelectionNoise::laplace && scale > 0.0) {
    noise::laplaces(source, noise);
  } else if (scale > 0.0) {
    noise::exponentials(source, noise);
    if (settings_.noise == SelectionNoise::gumbel) {
      simd::kernels().log(noise.data(), n, noise.data());
      scale = -scale;  // -log of an exponential is a Gumbel variate
    }
  }
  const double sign = settings_.largest ? 1.0 : -1.0;
  std::size_t chosen = 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    const double score = scores[i];  // the caller's memory is read once
    const double height = (score - score == 0.0 ? sign * score : 0.0) + scale * noise[i];
    if (height > best) {
      best = height;
      chosen = i;
    }
  }
  return chosen;
}

std::size_t NoisyMax::uniform(random::Source& source) {
  const std::size_t n = settings_.candidates;
  if (n == 1) return 0;
  scratch_.resize(n);
  noise::exponentials(source, scratch_);
  return static_cast<std::size_t>(std::min_element(scratch_.begin(), scratch_.end()) -
                                  scratch_.begin());
}

}  // namespace dpoco::mechanisms
