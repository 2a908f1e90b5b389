#include "dpoco/noise/exponential.hpp"

#include "dpoco/simd/elementary.hpp"

namespace dpoco::noise {
namespace {

using random::Variate;

constexpr double kCut = 44.361419555836498;  // 64 ln 2: P(X > kCut) = 2^-64
// The values of the outermost cells: -ln(2^-65) = 45.05 above (the next one is 43.96), and
// 2^-65 below (the next one is three times that).
constexpr double kTop = 44.5;
constexpr double kBottom = 0x1p-64;

bool is_outermost(double x) { return x > kTop || x < kBottom; }

}  // namespace

double mend(Source& source, double x) {
  double shift = 0.0;
  while (x > kTop) {
    shift += kCut;
    x = source.exponential();
  }
  double scale = 1.0;
  while (x < kBottom) {
    scale *= 0x1p-64;
    x = source.uniform();
    if (scale < 0x1p-900) break;  // never: 2^-960
  }
  return shift + scale * x;
}

double exponential(Source& source) {
  const double x = source.exponential();
  return is_outermost(x) ? mend(source, x) : x;
}

void exponentials(Source& source, std::size_t n, double* out) {
  source.fill(Variate::exponential, out, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (is_outermost(out[i])) out[i] = mend(source, out[i]);
  }
}

void laplaces(Source& source, std::size_t n, double* out) {
  source.fill(Variate::laplace, out, n);
  // Laplace magnitudes have 63 bits: outermost values at 64 ln 2 and 2^-64.
  constexpr double kTopOf63 = 43.8;                // outermost 44.36, next 43.27
  constexpr double kCutOf63 = 43.668272375276551;  // 63 ln 2
  for (std::size_t i = 0; i < n; ++i) {
    const double magnitude = out[i] < 0.0 ? -out[i] : out[i];
    double mended = magnitude;
    if (magnitude > kTopOf63) {
      mended = kCutOf63 + exponential(source);
    } else if (magnitude < 0x1p-63) {
      mended = 0x1p-63 * source.uniform();
    } else {
      continue;
    }
    out[i] = out[i] < 0.0 ? -mended : mended;
  }
}

void cube_exponential(Source& source, double scale, std::size_t n, double* out) {
  // Gamma(n + 1) as a sum of exponentials: exact, and no slower than the n uniforms.
  double radius = exponential(source);
  exponentials(source, n, out);
  for (std::size_t i = 0; i < n; ++i) radius += out[i];
  source.fill(Variate::uniform, out, n);
  const double reach = scale * radius;
  for (std::size_t i = 0; i < n; ++i) out[i] = reach * (2.0 * out[i] - 1.0);
}

}  // namespace dpoco::noise
