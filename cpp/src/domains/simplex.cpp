#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/projections.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

// The lanes let the loop vectorise. A minimum does not depend on the order of comparisons.
double minimum(std::span<const double> x) noexcept {
  const Index n = std::ssize(x);
  double least[8];
  std::fill_n(least, 8, std::numeric_limits<double>::infinity());
  Index i = 0;
  for (; i + 8 <= n; i += 8)
    for (Index j = 0; j < 8; ++j) least[j] = x[i + j] < least[j] ? x[i + j] : least[j];
  for (; i < n; ++i) least[0] = x[i] < least[0] ? x[i] : least[0];
  return *std::min_element(least, least + 8);
}

}  // namespace

Simplex::Simplex(Index dimension, double scale) : Domain(dimension), scale_(scale) {
  if (!(scale > 0.0) || !std::isfinite(scale))
    throw std::invalid_argument("scale must be positive and finite");
}

void Simplex::minimize_linear(std::span<const double> g, std::span<double> v) const noexcept {
  assert(std::ssize(g) == dimension() && v.size() == g.size());
  const double least = minimum(g);
  const auto vertex = std::ranges::find(g, least);
  // All entries NaN or +inf, or g = 0 (only then can the largest magnitude be 0).
  const bool flat =
      vertex == g.end() || (least == 0.0 && simd::kernels().max_abs(g.data(), g.size()) == 0.0);
  if (flat) return center(v);
  std::ranges::fill(v, 0.0);
  v[vertex - g.begin()] = scale_;
}

void Simplex::project(std::span<const double> x, std::span<double> out) const {
  assert(std::ssize(x) == dimension() && out.size() == x.size());
  if (std::isnan(norm(x, std::numeric_limits<double>::infinity()))) return center(out);
  project_simplex(x, scale_, out);
}

bool Simplex::contains(std::span<const double> x, double tolerance) const noexcept {
  assert(std::ssize(x) == dimension());
  double sum = 0.0;
  for (const double each : x) {
    if (!(each >= -tolerance * scale_)) return false;
    sum += each;
  }
  return std::fabs(sum - scale_) <= tolerance * scale_;
}

void Simplex::center(std::span<double> out) const {
  std::ranges::fill(out, scale_ / static_cast<double>(dimension()));
}

}  // namespace dpoco::domains
