#include "dpoco/domains/vertex_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpoco/simd/kernels.hpp"
#include "nearest_point.hpp"

namespace dpoco::domains {
VertexSet::VertexSet(RowMatrix vertices) : Domain(vertices.cols()), vertices_(std::move(vertices)) {
  if (vertices_.rows() < 1 || !vertices_.allFinite()) {
    throw std::invalid_argument("vertices must be finite, at least one");
  }
  size_ = vertices_.cwiseAbs().maxCoeff();
  center_ = vertices_.colwise().mean().transpose();
  // The mean of equal points may be a rounding away from them.
  const bool one_point = (vertices_.rowwise() - vertices_.row(0)).cwiseAbs().maxCoeff() == 0.0;
  if (one_point) center_ = vertices_.row(0).transpose();
}

void VertexSet::scores(const double* g, double* out) const noexcept {
  const auto d = static_cast<std::size_t>(dimension());
  const simd::Kernels& k = simd::kernels();
  for (Index i = 0; i < count(); ++i) out[i] = k.dot(g, vertex(i), d);
}

void VertexSet::minimize_linear(const double* g, double* v) const noexcept {
  const auto d = static_cast<std::size_t>(dimension());
  const simd::Kernels& k = simd::kernels();
  double least = std::numeric_limits<double>::infinity();
  Index best = -1;
  for (Index i = 0; i < count(); ++i) {
    const double score = k.dot(g, vertex(i), d);
    if (score < least) {
      least = score;
      best = i;
    }
  }
  const bool flat = best < 0 || std::all_of(g, g + d, [](double x) { return x == 0.0; });
  std::copy_n(flat ? center_.data() : vertex(best), d, v);
}

void VertexSet::project(const double* x, double* out) const {
  const Eigen::Map<const Vector> target(x, dimension());
  if (!target.allFinite()) return center(out);
  // In units of the larger of both sizes, so that no square over- or underflows; a power of 2.
  constexpr double kLeast = std::numeric_limits<double>::min();
  const double size = std::max({size_, target.cwiseAbs().maxCoeff(), kLeast});
  int exponent = 0;
  std::frexp(size, &exponent);
  const auto n = static_cast<std::size_t>(count());
  const auto d = static_cast<std::size_t>(dimension());
  std::vector<double> near(n * d);
  std::vector<DoubleDouble> exact(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const double* const at = vertex(static_cast<Index>(i));
    for (std::size_t j = 0; j < d; ++j) {
      exact[i * d + j] = exact_sum(std::ldexp(at[j], -exponent), -std::ldexp(x[j], -exponent));
      near[i * d + j] = exact[i * d + j].high;
    }
  }
  NearestPoint<double> rough(std::move(near), d);
  rough.find();
  // A column a million times smaller than another is below the rounding of doubles in every square:
  // the last steps, mostly a check, are taken in double-double arithmetic.
  NearestPoint<DoubleDouble> fine(std::move(exact), d);
  fine.resume(rough.corral(), {rough.weights().begin(), rough.weights().end()});
  fine.find();
  // Their combination, not the difference to x: its rounding is that of the set, however far x is.
  std::fill_n(out, d, 0.0);
  for (std::size_t i = 0; i < fine.corral().size(); ++i) {
    const auto weight = static_cast<double>(fine.weights()[i]);
    const double* const at = vertex(static_cast<Index>(fine.corral()[i]));
    for (std::size_t j = 0; j < d; ++j) out[j] += weight * at[j];
  }
}

bool VertexSet::contains(const double* x, double tolerance) const noexcept {
  const Eigen::Map<const Vector> target(x, dimension());
  if (!target.allFinite()) return false;
  Vector nearest(dimension());
  project(x, nearest.data());
  return (nearest - target).cwiseAbs().maxCoeff() <= tolerance * size_;
}

void VertexSet::center(double* out) const { std::copy_n(center_.data(), dimension(), out); }

}  // namespace dpoco::domains
