#include "wall_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A component of at most this size, relative to the gradient, counts as zero up to rounding.
constexpr double kFlat = 1e-14;
// Tolerance of the ratio test, relative to the set's size. Within it, the test may choose the wall
// that is met at the steepest angle (Harris).
constexpr double kGrain = 1e-14;
// A wall that is met at a smaller angle counts as parallel to the direction.
constexpr double kParallel = 1e-11;

using simd::dot;

}  // namespace

void WallWalk::start(const RowMatrix& rows, const Vector& slack, double size) {
  rows_ = &rows;
  slack_ = &slack;
  const Index n = rows.cols();
  const Index m = rows.rows();
  active_.reset(n);
  is_active_.assign(static_cast<std::size_t>(m), 0);
  point_.setZero(n);
  room_ = slack;
  rate_.resize(m);
  pull_.resize(n);
  rotated_.resize(n);
  direction_.resize(n);
  multipliers_.resize(n);
  grain_ = kGrain * size;
}

void WallWalk::minimize_linear(std::span<const double> g) {
  target_ = g;
  linear_ = true;
  walk();
}

void WallWalk::project(std::span<const double> v) {
  target_ = v;
  linear_ = false;
  walk();
}

void WallWalk::measure_room() {
  for (Index j = 0; j < rows_->rows(); ++j) {
    const bool on = is_active_[static_cast<std::size_t>(j)] != 0;
    room_[j] = on ? 0.0 : (*slack_)[j] - dot(view(rows_->row(j)), view(point_));
  }
}

void WallWalk::gradient() {
  const Index n = rows_->cols();
  if (linear_) {
    for (Index i = 0; i < n; ++i) pull_[i] = -target_[i];
  } else {
    for (Index i = 0; i < n; ++i) pull_[i] = target_[i] - point_[i];
  }
  active_.rotate(view(pull_), view(rotated_));
}

// Returns the first wall on the way along direction_, and the step to it; -1 if there is none.
Index WallWalk::blocking(double& step) const {
  double limit = kInfinity;
  double nearest = kInfinity;
  for (Index j = 0; j < room_.size(); ++j) {
    if (!(rate_[j] > kParallel)) continue;
    const double room = std::max(room_[j], 0.0);
    limit = std::min(limit, (room + grain_) / rate_[j]);
    nearest = std::min(nearest, room / rate_[j]);
  }
  Index chosen = -1;
  for (Index j = 0; j < room_.size(); ++j) {
    if (!(rate_[j] > kParallel)) continue;
    const double at = std::max(room_[j], 0.0) / rate_[j];
    if (bland_ ? at > nearest : at > limit) continue;
    if (chosen < 0 || (!bland_ && rate_[j] > rate_[chosen])) chosen = j;
  }
  if (chosen >= 0) step = std::max(room_[chosen], 0.0) / rate_[chosen];
  return chosen;
}

// Moves by at most `length` along the unit vector direction_. Returns false if no wall stopped it.
bool WallWalk::advance(double length) {
  const Index n = rows_->cols();
  for (Index j = 0; j < room_.size(); ++j) {
    const bool on = is_active_[static_cast<std::size_t>(j)] != 0;
    rate_[j] = on ? 0.0 : dot(view(rows_->row(j)), view(direction_));
  }
  double step = length;
  const Index wall = blocking(step);
  const bool stopped = wall >= 0 && step < length;
  step_ = stopped ? step : length;
  if (!std::isfinite(step_)) return false;
  for (Index i = 0; i < n; ++i) point_[i] += step_ * direction_[i];
  for (Index j = 0; j < room_.size(); ++j) room_[j] -= step_ * rate_[j];
  if (!stopped) return false;
  active_.rotate(view(rows_->row(wall)), view(rotated_));
  active_.add(wall, view(rotated_));
  is_active_[static_cast<std::size_t>(wall)] = 1;
  room_[wall] = 0.0;
  return true;
}

// Returns the position of the wall to leave, given the rotated pull; -1 if all multipliers are
// nonnegative.
Index WallWalk::leaving(double tolerance) {
  multipliers_ = rotated_.head(active_.size());
  active_.solve(view(multipliers_));
  Index chosen = -1;
  for (Index k = 0; k < active_.size(); ++k) {
    if (!(multipliers_[k] < -tolerance)) continue;
    const bool better = chosen < 0 || (bland_ ? active_.row(k) < active_.row(chosen)
                                              : multipliers_[k] < multipliers_[chosen]);
    if (better) chosen = k;
  }
  return chosen;
}

void WallWalk::walk() {
  const Index n = rows_->cols();
  const Index m = rows_->rows();
  scale_ = norm(target_, 2.0);
  const Index most = 1000 + 50 * (m + n);
  Index stalled = 0;
  bool settled = false;  // the last step reached the minimum of its face
  bland_ = false;
  measure_room();
  for (Index round = 0; round < most; ++round) {
    gradient();
    const Index k = active_.size();
    const auto across = view(rotated_).subspan(static_cast<std::size_t>(k));
    double rest = std::sqrt(dot(across, across));
    if (!settled && rest > kFlat * scale_) {
      for (double& each : across) each /= rest;
      active_.combine(view(rotated_), k, n, view(direction_));
      settled = !advance(linear_ ? kInfinity : rest);
      stalled = step_ > grain_ ? 0 : stalled + 1;
      bland_ = stalled > 2 * n;
      continue;
    }
    // For a projection, the multipliers are of the size of the distance.
    const double size = linear_ ? scale_ : norm(view(pull_), 2.0);
    const Index out = leaving(kFlat * std::max(size, linear_ ? 0.0 : kFlat * scale_));
    if (out < 0) break;
    is_active_[static_cast<std::size_t>(active_.row(out))] = 0;
    active_.remove(out);
    settled = false;
  }
  refine();
}

// Puts the point back on its walls, so that rounding errors of the steps do not accumulate. A
// second pass corrects the rounding error of the first.
void WallWalk::refine() {
  const Index n = rows_->cols();
  const Index k = active_.size();
  if (k == 0) return;
  active_.rotate(linear_ ? view(point_) : target_, view(rotated_));
  for (Index i = 0; i < k; ++i) rotated_[i] = (*slack_)[active_.row(i)];
  active_.solve_transposed(view(rotated_).first(static_cast<std::size_t>(k)));
  active_.combine(view(rotated_), 0, n, view(point_));
  for (Index i = 0; i < k; ++i) {
    const Index j = active_.row(i);
    rotated_[i] = (*slack_)[j] - dot(view(rows_->row(j)), view(point_));
  }
  active_.solve_transposed(view(rotated_).first(static_cast<std::size_t>(k)));
  active_.combine(view(rotated_), 0, k, view(direction_));
  for (Index i = 0; i < n; ++i) point_[i] += direction_[i];
}

double WallWalk::dual_bound(double reach) {
  const Index n = rows_->cols();
  gradient();
  leaving(0.0);
  double bound = 0.0;
  for (Index k = 0; k < active_.size(); ++k) {
    const double weight = std::max(multipliers_[k], 0.0);
    const Index j = active_.row(k);
    bound += weight * (*slack_)[j];
    for (Index i = 0; i < n; ++i) pull_[i] -= weight * (*rows_)(j, i);
  }
  return bound + reach * norm(view(pull_), 2.0);
}

}  // namespace dpoco::domains
