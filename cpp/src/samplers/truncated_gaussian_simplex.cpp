#include <algorithm>
#include <cassert>
#include <cmath>

#include "dpoco/samplers/special.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "truncated_gaussian_parts.hpp"

// A Gaussian with independent coordinates, given x >= 0 and sum x = total. Adding a constant to all
// means multiplies its density on the hyperplane by a constant, so the means may be shifted until
// independent truncated normals have the right expected sum. Then all coordinates except the widest
// are drawn. The widest gets the remainder, accepted with probability its density there over its
// largest.

namespace dpoco::samplers {
namespace {

using random::Source;

constexpr double kUnbounded = 1e300;

// The mean and variance of a standard normal beyond a wall at alpha, measured from the wall.
struct Tail {
  double mean;
  double variance;
};

Tail tail_moments(double alpha) {
  if (alpha > 1e4) return {1.0 / alpha, 1.0 / (alpha * alpha)};
  double hazard;
  if (alpha >= 0.0) {
    hazard = 1.0 / mills_ratio(alpha);
  } else {
    const double density = kInverseSqrtTwoPi * elementary::exp(-0.5 * alpha * alpha);
    hazard = density / (1.0 - density * mills_ratio(-alpha));
  }
  const double mean = hazard - alpha;
  return {mean, std::max(1.0 - hazard * mean, 0.0)};
}

struct Sum {
  double mean;
  double variance;
};

// The expected sum of standard normals beyond walls at -(means_i + shift).
Sum sum_means(std::span<const double> means, double shift) {
  Sum sum{0.0, 0.0};
  for (const double each : means) {
    const Tail tail = tail_moments(-(each + shift));
    sum.mean += tail.mean;
    sum.variance += tail.variance;
  }
  return sum;
}

// The shift with an expected sum of `total`, to a tenth of the sum's standard deviation. The
// sampler is exact for any shift. The expected sum is convex in the shift, first like 1/distance,
// then straight: Newton's method runs on its inverse from below for a small total, and on itself
// from above for a large one.
double balance(std::span<const double> means, double total) {
  const double largest = *std::ranges::max_element(means);
  double low = -largest - static_cast<double>(means.size()) /
                              total;  // n / (n / total) is an upper bound there
  double high = total - largest;      // one coordinate alone has mean total
  const bool large = total > 1.0;
  double shift = large ? high : low;
  for (int i = 0; i < 100; ++i) {
    const Sum sum = sum_means(means, shift);
    const double excess = sum.mean - total;
    if (excess * excess <= 0.01 * sum.variance) break;
    (excess < 0.0 ? low : high) = shift;
    const double step = excess / sum.variance * (large ? 1.0 : sum.mean / total);
    const double next = shift - step;
    const double trial = next > low && next < high ? next : 0.5 * (low + high);
    if (trial == shift) break;
    shift = trial;
  }
  return shift;
}

}  // namespace

void sample_simplex(Source& source, double total, std::span<const double> mean, double scale,
                    std::span<double> out, std::span<double> work) {
  const std::size_t n = mean.size();
  assert(out.size() == n && work.size() == 2 * n);
  const std::span<double> means = work.first(n);
  // Only differences of means matter. Beyond 1e200 they would overflow and change nothing.
  const double top = *std::ranges::max_element(mean);
  for (std::size_t i = 0; i < n; ++i) means[i] = std::max((mean[i] - top) / scale, -1e200);
  const double sum = total / scale;
  const double shift = balance(means, sum);
  std::size_t widest = 0;
  double widest_variance = -1.0;
  for (std::size_t i = 0; i < n; ++i) {
    means[i] += shift;
    const double variance = tail_moments(-means[i]).variance;
    if (variance > widest_variance) {
      widest = i;
      widest_variance = variance;
    }
  }
  // Coordinates are drawn as deviations from their centres max(mean, 0), because only deviations
  // keep their precision at a tiny scale. `rest` is the total minus the centres. If it is below its
  // rounding error, it is 0.
  double rest = sum;
  for (std::size_t i = 0; i < n; ++i) rest -= std::max(means[i], 0.0);
  if (std::fabs(rest) <= 4e-16 * static_cast<double>(n) * sum) rest = 0.0;
  const double centre = means[widest];
  for (;;) {
    double left = rest;
    for (std::size_t i = 0; i < n; ++i) {
      if (i == widest) continue;
      const double x = means[i] <= 0.0 ? normal_tail(source, -means[i], kUnbounded)
                                       : truncated_normal(source, 0.0, 1.0, -means[i], kUnbounded);
      work[n + i] = x;
      left -= x;
    }
    if (left < (centre > 0.0 ? -centre : 0.0)) continue;
    // The density of the widest is largest at its centre.
    const double energy = centre > 0.0 ? 0.5 * left * left : left * (0.5 * left - centre);
    if (energy > source.exponential()) continue;
    work[n + widest] = left;
    break;
  }
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = std::max(scale * (std::max(means[i], 0.0) + work[n + i]), 0.0);
  }
}

}  // namespace dpoco::samplers
