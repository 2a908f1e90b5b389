#include "dpoco/samplers/truncated_normal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpoco/noise/samplers.hpp"
#include "dpoco/simd/elementary.hpp"

// Every test compares an exponential variate with an energy >= 0, so a proposal is accepted with
// probability exp(-energy), up to the truncation of the variate.

namespace dpoco::samplers {
namespace {

using random::Source;

// sqrt(2 pi): for an interval of this length around 0, uniform and Gaussian proposals are equally
// good.
constexpr double kUniformBelow = 2.5066;

}  // namespace

double normal_tail(Source& source, double rate, double length) {
  // Robert (1995): the best exponential rate is rate + gap with gap (rate + gap) = 1. Far out the
  // gap has no effect and would overflow.
  const double gap = rate < 1e8 ? 2.0 / (rate + std::sqrt(rate * rate + 4.0)) : 0.0;
  const double proposal = rate + gap;
  // For lengths beyond exp(gap^2/2)/proposal the exponential proposal is better. Its chord is as
  // good.
  if (length * proposal <= 1.0 + 0.6487 * gap * gap) {
    for (;;) {
      const double x = length * source.uniform();
      if (x * (rate + 0.5 * x) <= source.exponential()) return x;
    }
  }
  for (;;) {
    const double x = source.exponential() / proposal;
    const double off = x - gap;
    const double e = source.exponential();
    if (x <= length && 0.5 * off * off <= e) return x;
  }
}

double truncated_normal(Source& source, double mean, double scale, double low, double high) {
  const double a = (low - mean) / scale;
  const double b = (high - mean) / scale;
  if (a > 0.0) {
    return std::min(low + scale * normal_tail(source, a, (high - low) / scale), high);
  }
  if (b < 0.0) {
    return std::max(high - scale * normal_tail(source, -b, (high - low) / scale), low);
  }
  if (b - a > kUniformBelow) {
    double z;
    do z = source.gaussian();
    while (z < a || z > b);
    return std::min(std::max(mean + scale * z, low), high);
  }
  for (;;) {
    const double value = low + (high - low) * source.uniform();
    const double z = (value - mean) / scale;
    if (0.5 * z * z <= source.exponential()) return std::min(value, high);
  }
}

double truncated_gamma(Source& source, double shape, double limit) {
  if (shape < 1.0) {
    // In a ball, only shape 1/2 (the plane) needs this branch: half the square of a normal variate.
    if (shape == 0.5) {
      const double z = truncated_normal(source, 0.0, 1.0, 0.0, std::sqrt(2.0 * limit));
      return std::min(0.5 * z * z, limit);
    }
    for (;;) {  // x^(shape-1) on [0, limit], thinned by exp(-x); an infinite bulk is cut by Gamma
      if (limit > 1.0) {
        const double x = noise::gamma(source, shape);
        if (x <= limit) return x;
      } else {
        const double x = limit * elementary::exp(-source.exponential() / shape);
        if (x <= source.exponential()) return x;
      }
    }
  }
  if (limit >= shape) {  // the median is below the mean
    for (;;) {
      const double x = noise::gamma(source, shape);
      if (x <= limit) return x;
    }
  }
  // x = limit exp(-y), where y has the log-concave density exp(-shape y - limit exp(-y)). Its
  // tangent with slope -rate touches at y0, and the remaining energy is shed (s - 1 + exp(-s)), s =
  // y - y0.
  const double sum = shape + limit;
  const double shed =
      2.0 * limit * (shape - 1.0) / (sum + std::sqrt(sum * sum - 4.0 * limit * (shape - 1.0)));
  const double rate = shape - shed;
  if (!(shed > 0.0)) {  // shape 1: a truncated exponential, thinned uniform since limit < 1
    for (;;) {
      const double x = limit * source.uniform();
      if (x <= source.exponential()) return x;
    }
  }
  const double touch = elementary::log(limit / shed);
  for (;;) {
    const double y = source.exponential() / rate;
    const double s = y - touch;
    const double decay = elementary::exp(-s);
    // Near the point of contact the difference cancels. Its series has the relative accuracy.
    if (shed * (s - 1.0 + decay) <= source.exponential()) return limit * elementary::exp(-y);
  }
}

}  // namespace dpoco::samplers
