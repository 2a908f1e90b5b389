#include "dpoco/noise/exponential.hpp"

#include "dpoco/simd/elementary.hpp"

namespace dpoco::noise {
namespace {

using random::Variate;

// P(X > kHigh) = P(X < kLow) = 2^-32. Both ends are whole cells of the 64 bits (for Laplace 63) of
// a variate.
constexpr double kTail = 0x1p-32;
constexpr double kHigh = 22.180709777918249;  // -log(2^-32)
constexpr double kLow = 0x1.000000008p-32;    // -log(1 - 2^-32)

bool is_outer(double x) { return x > kHigh || x < kLow; }

// A uniform in (0, 1) with relative precision 2^-32, from as many words as that needs.
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
  // X = -log U with U uniform. Given X > kHigh, U / kTail is uniform; given X < kLow, (1 - U) /
  // kTail is uniform.
  if (x > kHigh) return kHigh - elementary::log(fine_uniform(source));
  if (x < kLow) return -elementary::log1p(-kTail * fine_uniform(source));
  return x;
}

double exponential(Source& source) {
  const double x = source.exponential();
  return is_outer(x) ? mend(source, x) : x;
}

void exponentials(Source& source, std::span<double> out) {
  source.fill(Variate::exponential, out);
  for (double& each : out) {
    if (is_outer(each)) each = mend(source, each);
  }
}

void laplaces(Source& source, std::span<double> out) {
  source.fill(Variate::laplace, out);
  for (double& each : out) {
    const double magnitude = each < 0.0 ? -each : each;
    if (is_outer(magnitude)) {
      const double mended = mend(source, magnitude);
      each = each < 0.0 ? -mended : mended;
    }
  }
}

void cube_exponential(Source& source, double scale, std::span<double> out) {
  // Gamma(n + 1) as a sum of exponentials. This is exact, and no slower than drawing the n
  // uniforms.
  double radius = exponential(source);
  exponentials(source, out);
  for (const double each : out) radius += each;
  source.fill(Variate::uniform, out);
  const double reach = scale * radius;
  for (double& each : out) each = reach * (2.0 * each - 1.0);
}

}  // namespace dpoco::noise
