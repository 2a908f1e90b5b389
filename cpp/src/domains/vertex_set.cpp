#include "dpoco/domains/vertex_set.hpp"

#include <algorithm>
#include <cassert>
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
  // The mean of equal points may differ from them by a rounding error.
  const bool one_point = (vertices_.rowwise() - vertices_.row(0)).cwiseAbs().maxCoeff() == 0.0;
  if (one_point) center_ = vertices_.row(0).transpose();
}

void VertexSet::scores(std::span<const double> g, std::span<double> out) const noexcept {
  assert(std::ssize(g) == dimension() && std::ssize(out) == count());
  for (Index i = 0; i < count(); ++i) out[i] = dot(g, vertex(i));
}

void VertexSet::minimize_linear(std::span<const double> g, std::span<double> v) const noexcept {
  assert(std::ssize(g) == dimension() && v.size() == g.size());
  double least = std::numeric_limits<double>::infinity();
  Index best = -1;
  for (Index i = 0; i < count(); ++i) {
    const double score = dot(g, vertex(i));
    if (score < least) {
      least = score;
      best = i;
    }
  }
  const bool flat = best < 0 || std::ranges::all_of(g, [](double x) { return x == 0.0; });
  std::ranges::copy(flat ? view(center_) : vertex(best), v.begin());
}

void VertexSet::project(std::span<const double> x, std::span<double> out) const {
  assert(std::ssize(x) == dimension() && out.size() == x.size());
  const auto target = as_vector(x);
  if (!target.allFinite()) return center(out);
  // The unit is a power of 2 near the larger of both sizes, so that no square over- or underflows.
  constexpr double kLeast = std::numeric_limits<double>::min();
  const double size = std::max({size_, target.cwiseAbs().maxCoeff(), kLeast});
  int exponent = 0;
  std::frexp(size, &exponent);
  const auto n = static_cast<std::size_t>(count());
  const std::size_t d = x.size();
  std::vector<double> near(n * d);
  std::vector<DoubleDouble> exact(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const double> at = vertex(static_cast<Index>(i));
    for (std::size_t j = 0; j < d; ++j) {
      exact[i * d + j] = exact_sum(std::ldexp(at[j], -exponent), -std::ldexp(x[j], -exponent));
      near[i * d + j] = exact[i * d + j].high;
    }
  }
  NearestPoint<double> rough(std::move(near), d);
  rough.find();
  // The squares of a column that is a million times smaller than another are below the rounding
  // error of doubles. So the last steps, which mostly only check the result, use double-double
  // arithmetic.
  NearestPoint<DoubleDouble> fine(std::move(exact), d);
  fine.resume(rough.corral(), {rough.weights().begin(), rough.weights().end()});
  fine.find();
  // Computes the combination of the points, not the difference to x: its rounding error is relative
  // to the set, however far away x is.
  std::ranges::fill(out, 0.0);
  for (std::size_t i = 0; i < fine.corral().size(); ++i) {
    const auto weight = static_cast<double>(fine.weights()[i]);
    const std::span<const double> at = vertex(static_cast<Index>(fine.corral()[i]));
    for (std::size_t j = 0; j < d; ++j) out[j] += weight * at[j];
  }
}

bool VertexSet::contains(std::span<const double> x, double tolerance) const noexcept {
  assert(std::ssize(x) == dimension());
  const auto target = as_vector(x);
  if (!target.allFinite()) return false;
  Vector nearest(dimension());
  project(x, view(nearest));
  return (nearest - target).cwiseAbs().maxCoeff() <= tolerance * size_;
}

void VertexSet::center(std::span<double> out) const {
  std::ranges::copy(view(center_), out.begin());
}

}  // namespace dpoco::domains
