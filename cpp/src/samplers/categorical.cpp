#include "dpoco/samplers/categorical.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "dpoco/noise/exponential.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::samplers {

std::size_t draw_by_race(random::Source& source, std::span<const double> weights,
                         std::span<double> scratch) {
  const std::size_t n = weights.size();
  assert(scratch.size() >= n);
  noise::exponentials(source, scratch.first(n));
  std::size_t first = 0;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    // An entry of weight zero never wins: E / 0 is infinite, because E is positive.
    const double arrival = scratch[i] / weights[i];
    if (arrival < best) {
      best = arrival;
      first = i;
    }
  }
  return first;
}

std::size_t draw_by_log_race(random::Source& source, std::span<const double> log_weights,
                             std::span<double> scratch) {
  const std::size_t n = log_weights.size();
  assert(scratch.size() >= n);
  noise::exponentials(source, scratch.first(n));
  simd::kernels().log(scratch.data(), n, scratch.data());
  std::size_t first = 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    const double height = log_weights[i] - scratch[i];
    if (height > best) {
      best = height;
      first = i;
    }
  }
  return first;
}

std::size_t draw_by_scan(double uniform, std::span<const double> weights, double total) {
  constexpr std::size_t kBlock = 64;
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = weights.size();
  double left = uniform * total;
  std::size_t i = 0;
  // Adds whole blocks first, because their sums do not wait for each other.
  while (i + kBlock < n) {
    const double block = k.sum(&weights[i], kBlock);
    if (left <= block) break;
    left -= block;
    i += kBlock;
  }
  for (; i < n; ++i) {
    if (weights[i] > 0.0) {
      left -= weights[i];
      if (left <= 0.0) return i;
    }
  }
  // Sums in different orders differ by rounding errors. In this case takes the last entry that has
  // a positive weight.
  while (i > 1 && !(weights[i - 1] > 0.0)) --i;
  return i - 1;
}

}  // namespace dpoco::samplers
