#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/projections.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

// Lanes let the loop vectorise; a minimum does not depend on the order.
double minimum(const double* x, Index n) noexcept {
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

void Simplex::minimize_linear(const double* g, double* v) const noexcept {
  const Index n = dimension();
  const double least = minimum(g, n);
  const double* const vertex = std::find(g, g + n, least);
  // All entries NaN or +inf, or g = 0 (only then can the largest magnitude be 0).
  const bool flat = vertex == g + n || (least == 0.0 && simd::kernels().max_abs(
                                                            g, static_cast<std::size_t>(n)) == 0.0);
  std::fill_n(v, n, flat ? scale_ / static_cast<double>(n) : 0.0);
  if (!flat) v[vertex - g] = scale_;
}

void Simplex::project(const double* x, double* out) const {
  if (std::isnan(norm(x, dimension(), std::numeric_limits<double>::infinity()))) return center(out);
  project_simplex(x, dimension(), scale_, out);
}

bool Simplex::contains(const double* x, double tolerance) const noexcept {
  const Index n = dimension();
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) {
    if (!(x[i] >= -tolerance * scale_)) return false;
    sum += x[i];
  }
  return std::fabs(sum - scale_) <= tolerance * scale_;
}

void Simplex::center(double* out) const {
  std::fill_n(out, dimension(), scale_ / static_cast<double>(dimension()));
}

}  // namespace dpoco::domains
