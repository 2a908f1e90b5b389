#include "dpoco/noise/samplers.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::noise {

using random::Variate;

double gamma(Source& source, double shape) {
  if (shape < 1.0) {
    const double boosted = gamma(source, shape + 1.0);
    return boosted * elementary::exp(-source.exponential() / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = source.gaussian();
    const double t = 1.0 + c * x;
    // The draw comes before the test of t, so that every attempt uses the same number of variates.
    const double e = source.exponential();
    if (t <= 0.0) continue;
    const double v = t * t * t;
    // Accept with probability exp(x^2/2 + d (1 - v + log v)); -e is the log of a uniform.
    if (-e < 0.5 * x * x + d * (1.0 - v + elementary::log(v))) return d * v;
  }
}

void gammas(Source& source, double shape, std::span<double> out) {
  if (shape < 1.0) {  // attempts and boosts take turns
    for (double& each : out) each = gamma(source, shape);
    return;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  constexpr std::size_t kMost = 128;
  double x[kMost];
  double e[kMost];
  double v[kMost];
  double logs[kMost];
  while (!out.empty()) {
    // No more attempts than are needed in any case.
    const std::size_t attempts = std::min(out.size(), kMost);
    source.fill(Variate::gaussian, std::span(x).first(attempts));
    source.fill(Variate::exponential, std::span(e).first(attempts));
    for (std::size_t i = 0; i < attempts; ++i) {
      const double t = 1.0 + c * x[i];
      v[i] = t > 0.0 ? t * t * t : 1.0;
    }
    simd::kernels().log(v, attempts, logs);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < attempts; ++i) {
      const bool accepted = -e[i] < 0.5 * x[i] * x[i] + d * (1.0 - v[i] + logs[i]);
      out[kept] = d * v[i];
      kept += (accepted & (1.0 + c * x[i] > 0.0)) ? 1 : 0;
    }
    out = out.subspan(kept);
  }
}

GeneralizedGaussian::GeneralizedGaussian(Index dimension, double order, double scale)
    : dimension_(dimension), order_(order), scale_(scale) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (!(order >= 1.0)) throw std::invalid_argument("order must be in [1, inf]");
  if (!(scale >= 0.0) || !std::isfinite(scale)) {
    throw std::invalid_argument("scale must be finite and not negative");
  }
  if (order != 2.0) {
    const auto d = static_cast<std::size_t>(dimension);
    magnitudes_.resize(d);
    signs_.resize((d + 63) / 64);
  }
}

// A magnitude with density proportional to exp(-x^r) on x >= 0. For finite r it is U Gamma(1 +
// 1/r)^(1/r), which does not underflow for large r; Gamma(1/r)^(1/r) would.
void GeneralizedGaussian::sample_magnitudes(Source& source) {
  if (order_ == 1.0) return source.fill(Variate::exponential, magnitudes_);
  source.fill(Variate::uniform, magnitudes_);
  if (std::isinf(order_)) return;
  const double inverse = 1.0 / order_;
  constexpr std::size_t kPiece = 512;
  double roots[kPiece];
  for (std::size_t first = 0; first < magnitudes_.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, magnitudes_.size() - first);
    gammas(source, 1.0 + inverse, std::span(roots).first(count));
    simd::kernels().signed_power(roots, count, 1.0, inverse, roots);
    for (std::size_t i = 0; i < count; ++i) magnitudes_[first + i] *= roots[i];
  }
}

bool GeneralizedGaussian::accounts_for(const Source& source, std::uint64_t vectors) const noexcept {
  const auto d = static_cast<std::uint64_t>(dimension_);
  const std::uint64_t attempts = source.position(Variate::gaussian);
  if (order_ == 2.0) return attempts == vectors * d;
  constexpr std::uint64_t kMost = 1ULL << 60;
  const bool laplace_like = order_ == 1.0;
  const bool gammas = !laplace_like && !std::isinf(order_);  // one per coordinate
  // The radius uses a gamma variate of shape d / 2, which for d = 1 needs one more exponential.
  const std::uint64_t further = (d == 1 ? vectors : 0) + (laplace_like ? vectors * d : 0);
  return source.position(Variate::word) == vectors * signs_.size() &&
         source.position(Variate::uniform) == (laplace_like ? 0 : vectors * d) &&
         attempts >= vectors * (gammas ? d + 1 : 1) && attempts < kMost &&
         source.position(Variate::exponential) == attempts + further;
}

void gaussian(Source& source, double scale, std::span<double> out) {
  source.fill(Variate::gaussian, out);
  for (double& each : out) each *= scale;
}

void GeneralizedGaussian::sample(Source& source, std::span<double> out) {
  assert(std::ssize(out) == dimension_);
  if (order_ == 2.0) return gaussian(source, scale_, out);
  sample_magnitudes(source);
  source.fill_words(signs_);
  const double radius =
      scale_ * std::sqrt(2.0 * gamma(source, 0.5 * static_cast<double>(dimension_)));
  const double factor = radius / domains::norm(magnitudes_, order_);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool negative = ((signs_[i / 64] >> (i % 64)) & 1) != 0;
    out[i] = negative ? -factor * magnitudes_[i] : factor * magnitudes_[i];
  }
}

}  // namespace dpoco::noise
