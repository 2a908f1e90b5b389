#include "dpoco/noise/samplers.hpp"

#include <algorithm>
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
    // Drawn before the test on t: every attempt costs the same variates.
    const double e = source.exponential();
    if (t <= 0.0) continue;
    const double v = t * t * t;
    // Accept with probability exp(x^2/2 + d (1 - v + log v)); -e is the log of a uniform.
    if (-e < 0.5 * x * x + d * (1.0 - v + elementary::log(v))) return d * v;
  }
}

namespace {

constexpr std::size_t kMost = 128;

// Many attempts at Gamma(shape), shape >= 1, from Gaussian and exponential variates.
struct Attempts {
  explicit Attempts(double shape) : d(shape - 1.0 / 3.0), c(1.0 / std::sqrt(9.0 * d)) {}

  void make(const double* x, const double* e, std::size_t n) {
    double logs[kMost];
    for (std::size_t i = 0; i < n; ++i) {
      const double t = 1.0 + c * x[i];
      values[i] = t > 0.0 ? t * t * t : 1.0;
    }
    simd::kernels().log(values, n, logs);
    for (std::size_t i = 0; i < n; ++i) {
      const bool accepts = -e[i] < 0.5 * x[i] * x[i] + d * (1.0 - values[i] + logs[i]);
      accepted[i] = accepts & (1.0 + c * x[i] > 0.0);
      values[i] *= d;
    }
  }

  double d;
  double c;
  double values[kMost];
  bool accepted[kMost];
};

// For each of `rows`: n variates of Gamma(1 + inverse), then one of Gamma(shape), shape >= 1; the
// same values as one by one. An attempt is made at both, and the one whose turn it is takes it.
void gamma_rows(Source& source, double inverse, double shape, std::size_t rows, std::size_t n,
                double* out, double* last) {
  Attempts each[2] = {Attempts(1.0 + inverse), Attempts(shape)};
  double* to[2] = {out, last};
  double x[kMost];
  double e[kMost];
  std::size_t column = 0;
  for (std::size_t left = rows * (n + 1); left > 0;) {
    const std::size_t attempts = std::min(left, kMost);  // no more than will be made in any case
    source.fill(Variate::gaussian, x, attempts);
    source.fill(Variate::exponential, e, attempts);
    for (Attempts& law : each) law.make(x, e, attempts);
    for (std::size_t i = 0; i < attempts; ++i) {
      const std::size_t turn = column == n ? 1 : 0;
      if (!each[turn].accepted[i]) continue;
      *to[turn]++ = each[turn].values[i];
      column = turn == 1 ? 0 : column + 1;
      --left;
    }
  }
}

}  // namespace

void gammas(Source& source, double shape, std::size_t n, double* out) {
  if (shape < 1.0) {  // attempts and boosts take turns
    for (std::size_t i = 0; i < n; ++i) out[i] = gamma(source, shape);
    return;
  }
  Attempts law(shape);
  double x[kMost];
  double e[kMost];
  while (n > 0) {
    const std::size_t attempts = std::min(n, kMost);  // no more than will be made in any case
    source.fill(Variate::gaussian, x, attempts);
    source.fill(Variate::exponential, e, attempts);
    law.make(x, e, attempts);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < attempts; ++i) {
      out[kept] = law.values[i];
      kept += law.accepted[i] ? 1 : 0;
    }
    out += kept;
    n -= kept;
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

// Density proportional to exp(-x^r) on x >= 0. For finite r it is U Gamma(1 + 1/r)^(1/r), which
// does not underflow for large r as Gamma(1/r)^(1/r) would.
void GeneralizedGaussian::sample_magnitudes(Source& source, double* out) {
  const auto d = static_cast<std::size_t>(dimension_);
  if (order_ == 1.0) {
    source.fill(Variate::exponential, out, d);
    return;
  }
  source.fill(Variate::uniform, out, d);
  if (std::isinf(order_)) return;
  const double inverse = 1.0 / order_;
  constexpr std::size_t kPiece = 512;
  double roots[kPiece];
  for (std::size_t first = 0; first < d; first += kPiece) {
    const std::size_t count = std::min(kPiece, d - first);
    gammas(source, 1.0 + inverse, count, roots);
    simd::kernels().signed_power(roots, count, 1.0, inverse, roots);
    for (std::size_t i = 0; i < count; ++i) out[first + i] *= roots[i];
  }
}

bool GeneralizedGaussian::accounts_for(const Source& source, std::uint64_t vectors) const noexcept {
  const auto d = static_cast<std::uint64_t>(dimension_);
  const std::uint64_t attempts = source.position(Variate::gaussian);
  if (order_ == 2.0) return attempts == vectors * d;
  constexpr std::uint64_t kMost = 1ULL << 60;
  const bool laplace_like = order_ == 1.0;
  const bool gammas = !laplace_like && !std::isinf(order_);  // one a coordinate
  // The radius takes a gamma variate of shape d / 2, which for d = 1 takes one exponential more.
  const std::uint64_t further = (d == 1 ? vectors : 0) + (laplace_like ? vectors * d : 0);
  return source.position(Variate::word) == vectors * signs_.size() &&
         source.position(Variate::uniform) == (laplace_like ? 0 : vectors * d) &&
         attempts >= vectors * (gammas ? d + 1 : 1) && attempts < kMost &&
         source.position(Variate::exponential) == attempts + further;
}

void gaussian(Source& source, double scale, std::size_t n, double* out) {
  source.fill(Variate::gaussian, out, n);
  for (std::size_t i = 0; i < n; ++i) out[i] *= scale;
}

// A vector in the direction of the magnitudes, with those signs, whose norm's square is given in
// halves of scale^2.
void GeneralizedGaussian::place(double half_square, const double* magnitudes,
                                const std::uint64_t* signs, double* out) const {
  const auto d = static_cast<std::size_t>(dimension_);
  const double radius = scale_ * std::sqrt(2.0 * half_square);
  const double factor = radius / domains::norm(magnitudes, dimension_, order_);
  for (std::size_t i = 0; i < d; ++i) {
    const bool negative = ((signs[i / 64] >> (i % 64)) & 1) != 0;
    out[i] = negative ? -factor * magnitudes[i] : factor * magnitudes[i];
  }
}

// Rows with one word of signs, many at once: the kernels are made for long arrays.
void GeneralizedGaussian::sample_short(Source& source, std::size_t rows, double* out) {
  constexpr std::size_t kPiece = 512;
  const auto d = static_cast<std::size_t>(dimension_);
  const double inverse = 1.0 / order_;
  double magnitudes[kPiece];
  double roots[kPiece];
  double half_squares[kPiece / 2];
  std::uint64_t signs[kPiece / 2];
  while (rows > 0) {
    const std::size_t count = std::min(rows, kPiece / d);
    source.fill(Variate::uniform, magnitudes, count * d);
    gamma_rows(source, inverse, 0.5 * static_cast<double>(d), count, d, roots, half_squares);
    source.fill_words(signs, count);
    simd::kernels().signed_power(roots, count * d, 1.0, inverse, roots);
    for (std::size_t i = 0; i < count * d; ++i) magnitudes[i] *= roots[i];
    for (std::size_t r = 0; r < count; ++r, out += d) {
      place(half_squares[r], magnitudes + r * d, signs + r, out);
    }
    rows -= count;
  }
}

void GeneralizedGaussian::sample(Source& source, std::size_t rows, double* out) {
  const auto d = static_cast<std::size_t>(dimension_);
  if (order_ == 2.0) return gaussian(source, scale_, rows * d, out);
  const bool finite = order_ > 1.0 && !std::isinf(order_);
  if (finite && d >= 2 && d <= 64) return sample_short(source, rows, out);
  for (std::size_t r = 0; r < rows; ++r, out += d) {
    sample_magnitudes(source, magnitudes_.data());
    source.fill_words(signs_.data(), signs_.size());
    const double half_square = gamma(source, 0.5 * static_cast<double>(dimension_));
    place(half_square, magnitudes_.data(), signs_.data(), out);
  }
}

}  // namespace dpoco::noise
