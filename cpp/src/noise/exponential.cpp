#include "dpoco/noise/exponential.hpp"

#include "dpoco/simd/elementary.hpp"

namespace dpoco::noise {
namespace {

using random::Variate;

// P(X > kHigh) = P(X < kLow) = 2^-32; both ends are whole cells of the 64 (for Laplace 63) bits
// behind a variate.
constexpr double kTail = 0x1p-32;
constexpr double kHigh = 22.180709777918249;  // -log(2^-32)
constexpr double kLow = 0x1.000000008p-32;    // -log(1 - 2^-32)

bool is_outer(double x) { return x > kHigh || x < kLow; }

// Uniform in (0, 1) from as many words as it takes to know it to relative 2^-32.
double fine_uniform(Source& source) {
  double scale = 0x1p-64;
  std::uint64_t j = source.word();
  while (j < (1ULL << 32)) {
    scale *= kTail;
    j = source.word();
  }
  return scale * (static_cast<double>(j) + 0.5);
}

}  // namespace

double mend(Source& source, double x) {
  // X = -log U with U uniform: given X > kHigh, U / kTail is uniform, and given X < kLow,
  // (1 - U) / kTail.
  if (x > kHigh) return kHigh - elementary::log(fine_uniform(source));
  if (x < kLow) return -elementary::log1p(-kTail * fine_uniform(source));
  return x;
}

double exponential(Source& source) {
  const double x = source.exponential();
  return is_outer(x) ? mend(source, x) : x;
}

void exponentials(Source& source, std::size_t n, double* out) {
  source.fill(Variate::exponential, out, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (is_outer(out[i])) out[i] = mend(source, out[i]);
  }
}

void laplaces(Source& source, std::size_t n, double* out) {
  source.fill(Variate::laplace, out, n);
  for (std::size_t i = 0; i < n; ++i) {
    const double magnitude = out[i] < 0.0 ? -out[i] : out[i];
    if (is_outer(magnitude)) {
      const double mended = mend(source, magnitude);
      out[i] = out[i] < 0.0 ? -mended : mended;
    }
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
