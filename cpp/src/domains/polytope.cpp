#include "dpoco/domains/polytope.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/kernels.hpp"
#include "wall_walk.hpp"

namespace dpoco::domains {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

using simd::dot;

double largest(std::span<const double> x) noexcept {
  return simd::kernels().max_abs(x.data(), x.size());
}

// bounds - rows center. Checks its arguments.
Vector find_slack(const RowMatrix& rows, const Vector& bounds, const Vector& center) {
  const Index n = center.size();
  if (n < 1 || rows.rows() < 1 || rows.cols() != n || bounds.size() != rows.rows()) {
    throw std::invalid_argument("rows, bounds and center have incompatible shapes");
  }
  Vector slack(bounds.size());
  for (Index j = 0; j < slack.size(); ++j) {
    const double length = norm(view(rows.row(j)), 2.0);
    if (!(std::fabs(length - 1.0) <= 1e-9)) {
      throw std::invalid_argument("rows must have length 1");
    }
    slack[j] = bounds[j] - dot(view(rows.row(j)), view(center));
    if (!(slack[j] > 0.0) || !std::isfinite(slack[j])) {
      throw std::invalid_argument("center must be an interior point");
    }
  }
  return slack;
}

// One workspace per thread: minimisers are const, may run on many threads, and are called often.
WallWalk& workspace() {
  thread_local WallWalk walk;
  return walk;
}

}  // namespace

Polytope::Polytope(RowMatrix rows, const Vector& bounds, Vector center, Vector lower, Vector upper,
                   double radius)
    : Domain(center.size()),
      rows_(std::move(rows)),
      slack_(find_slack(rows_, bounds, center)),
      center_(std::move(center)),
      lower_(std::move(lower)),
      upper_(std::move(upper)),
      reach_(rows_.rows()),
      radius_(radius) {
  const Index n = dimension();
  if (lower_.size() != n || upper_.size() != n) {
    throw std::invalid_argument("the box must have the dimension of the set");
  }
  if (!lower_.allFinite() || !upper_.allFinite() || !(center_ - lower_).allFinite() ||
      !((center_ - lower_).minCoeff() > 0.0) || !((upper_ - center_).minCoeff() > 0.0)) {
    throw std::invalid_argument("the box must be finite and hold the centre inside");
  }
  if (!(radius > 0.0) || !std::isfinite(radius)) {
    throw std::invalid_argument("radius must be positive and finite");
  }
  for (Index j = 0; j < rows_.rows(); ++j) {
    reach_[j] = 0.0;
    for (Index i = 0; i < n; ++i) {
      reach_[j] += std::fabs(rows_(j, i)) * std::max(std::fabs(lower_[i]), std::fabs(upper_[i]));
    }
  }
}

void Polytope::bounding_box(const RowMatrix& rows, const Vector& bounds, const Vector& center,
                            double reach, Vector& below, Vector& above) {
  const Vector slack = find_slack(rows, bounds, center);
  const Index n = center.size();
  if (!(reach > 0.0) || !std::isfinite(reach)) {
    throw std::invalid_argument("reach must be positive and finite");
  }
  below.resize(n);
  above.resize(n);
  Vector g = Vector::Zero(n);
  WallWalk walk;
  // The bound from the ellipsoid around the analytic centre is too large by a factor of up to m +
  // 1.
  const double size = reach / static_cast<double>(rows.rows() + 1);
  // This exceeds the rounding errors of the sums of n or m terms in the bound.
  const double outward = 1.0 + 8.0 * kEpsilon * static_cast<double>(n + rows.rows());
  for (Index i = 0; i < n; ++i) {
    for (const double side : {-1.0, 1.0}) {
      g[i] = -side;
      walk.start(rows, slack, size);  // from the centre: from the last vertex it takes more steps
      walk.minimize_linear(view(g));
      (side < 0.0 ? below : above)[i] = outward * walk.dual_bound(reach);
    }
    g[i] = 0.0;
  }
}

void Polytope::minimize_linear(std::span<const double> g, std::span<double> v) const noexcept {
  const Index n = dimension();
  assert(std::ssize(g) == n && v.size() == g.size());
  const double size = largest(g);
  if (!(size > 0.0)) return center(v);
  const PowerOfTwoScale scale = power_of_two_scale(size);
  for (Index i = 0; i < n; ++i) v[i] = scale.apply(g[i]);
  WallWalk& walk = workspace();
  walk.start(rows_, slack_, radius_);
  walk.minimize_linear(v);
  for (Index i = 0; i < n; ++i) v[i] = center_[i] + walk.point()[i];
}

void Polytope::project(std::span<const double> x, std::span<double> out) const {
  const Index n = dimension();
  assert(std::ssize(x) == n && out.size() == x.size());
  if (std::isnan(largest(x))) return center(out);
  // Points farther away are rounded by more than the size of the set anyway, and their squares
  // would overflow.
  constexpr double kFar = 1e140;
  for (Index i = 0; i < n; ++i) out[i] = 0.5 * x[i] - 0.5 * center_[i];
  const double size = largest(out);
  const double shrink = size > kFar ? kFar / size : 2.0;
  for (Index i = 0; i < n; ++i) out[i] *= shrink;
  // Results of the projection itself count as inside.
  const double grain = 2e-14 * radius_;
  bool inside = true;
  for (Index j = 0; inside && j < rows_.rows(); ++j) {
    inside = dot(view(rows_.row(j)), out) <= slack_[j] + (grain + 16.0 * kEpsilon * reach_[j]);
  }
  if (inside) {
    std::ranges::copy(x, out.begin());
    return;
  }
  WallWalk& walk = workspace();
  walk.start(rows_, slack_, radius_);
  walk.project(out);
  for (Index i = 0; i < n; ++i) out[i] = center_[i] + walk.point()[i];
}

bool Polytope::contains(std::span<const double> x, double tolerance) const noexcept {
  const Index n = dimension();
  const double* const c = center_.data();
  assert(std::ssize(x) == n);
  if (std::isnan(largest(x))) return false;
  for (Index j = 0; j < rows_.rows(); ++j) {
    double sum = 0.0;
    for (Index i = 0; i < n; ++i) sum += rows_(j, i) * (x[i] - c[i]);
    if (!(sum <= slack_[j] + tolerance * reach_[j])) return false;
  }
  return true;
}

void Polytope::center(std::span<double> out) const {
  std::ranges::copy(view(center_), out.begin());
}

}  // namespace dpoco::domains
