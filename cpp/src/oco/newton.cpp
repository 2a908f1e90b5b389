#include "dpoco/oco/newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Relative size of the gradient at which a point counts as the minimiser.
constexpr double kTolerance = 1e-12;
// A step that leaves more than this part of the gradient shows a bad model.
constexpr double kContraction = 0.5;
// Convergence takes about six steps; hundreds mean that the losses are not what they promise.
constexpr int kMostSteps = 1000;
constexpr int kMostNewtonSteps = 200;
constexpr int kMostHalvings = 60;
// Newton steps go at most this part of the way to the boundary.
constexpr double kReach = 0.99;
constexpr double kArmijo = 1e-4;
// Squared Newton decrement, in barrier weights, below which full steps are safe.
constexpr double kFullStep = 1e-2;
// Newton steps that a start near the minimiser may need.
constexpr int kNearSteps = 12;
// The barrier's weight changes by this factor at a time, once the squared decrement is below this
// many weights; it never needs to be larger than this.
constexpr double kDegree = 10.0;
constexpr double kCentral = 0.1;
constexpr double kLargestWeight = 1e30;

using Map = Eigen::Map<Vector>;
using ConstMap = Eigen::Map<const Vector>;

double dot(const std::vector<double>& a, const double* b) {
  return simd::kernels().dot(a.data(), b, a.size());
}

double norm(const double* x, std::size_t n) { return std::sqrt(simd::kernels().dot(x, x, n)); }

}  // namespace

double Regularizer::value(const double* u) const {
  const ConstMap at(u, dimension);
  double sum = 0.0;
  for (Index i = 0; i < dimension; ++i) sum += u[i] * u[i];
  sum *= 0.5 * inverse_step;
  return barrier ? sum + weight * barrier->value(at) : sum;
}

void Regularizer::gradient(const double* u, double* out) const {
  if (!barrier) {
    for (Index i = 0; i < dimension; ++i) out[i] = inverse_step * u[i];
    return;
  }
  barrier->gradient(ConstMap(u, dimension), Map(out, dimension));
  for (Index i = 0; i < dimension; ++i) out[i] = weight * out[i] + inverse_step * u[i];
}

void Regularizer::add_hessian(const double* u, double* matrix) const {
  Eigen::Map<RowMatrix> to(matrix, dimension, dimension);
  to.diagonal().array() += inverse_step;
  if (!barrier) return;
  RowMatrix bend(dimension, dimension);
  barrier->hessian(ConstMap(u, dimension), bend);
  to += weight * bend;
}

double Regularizer::distance(const double* u, const double* step) const {
  return barrier ? barrier->distance(ConstMap(u, dimension), ConstMap(step, dimension)) : kInfinity;
}

LeaderSolver::LeaderSolver(Regularizer regularizer)
    : regularizer_(std::move(regularizer)),
      path_(regularizer_),
      n_(static_cast<std::size_t>(regularizer_.dimension)),
      factor_(regularizer_.dimension),
      linear_(n_, 0.0),
      next_(linear_),
      next_slope_(linear_),
      gradient_(linear_),
      step_(linear_),
      trial_(linear_),
      matrix_(n_ * n_, 0.0) {}

// |grad J(u) + z|
double LeaderSolver::residual(const double* slope, const double* z, const double* u) {
  regularizer_.gradient(u, gradient_.data());
  for (std::size_t i = 0; i < n_; ++i) gradient_[i] += slope[i] + z[i];
  return norm(gradient_.data(), n_);
}

double LeaderSolver::scale(const double* slope, const double* z, const double* u) const {
  return norm(z, n_) + norm(slope, n_) + regularizer_.inverse_step * norm(u, n_);
}

// What the rounding of u itself does to the gradient there. Close to the boundary, where strong
// losses hold u, the barrier is so steep that this passes any fixed tolerance.
double LeaderSolver::rounding(const std::vector<double>& u, const std::vector<double>& curvature) {
  std::copy(curvature.begin(), curvature.end(), matrix_.begin());
  regularizer_.add_hessian(u.data(), matrix_.data());
  const double ulps = 16.0 + static_cast<double>(n_);
  return ulps * std::numeric_limits<double>::epsilon() * norm(matrix_.data(), n_ * n_) *
         norm(u.data(), n_);
}

// u'Au/2 + <linear_, u> + regularizer
double LeaderSolver::model_value(const double* curvature, const double* u) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n_; ++i) {
    sum += u[i] * (0.5 * simd::kernels().dot(curvature + i * n_, u, n_) + linear_[i]);
  }
  return sum + path_.value(u);
}

// The Newton step of the model at next_, to step_; returns its squared decrement.
double LeaderSolver::newton_step(const std::vector<double>& curvature) {
  path_.gradient(next_.data(), gradient_.data());
  for (std::size_t i = 0; i < n_; ++i) {
    gradient_[i] += linear_[i] + dot(next_, curvature.data() + i * n_);
  }
  std::copy(curvature.begin(), curvature.end(), matrix_.begin());
  path_.add_hessian(next_.data(), matrix_.data());
  if (!factor_.compute(matrix_.data())) {
    throw StateError("the sum of the losses and the regularizer is not strictly convex");
  }
  factor_.solve(gradient_.data(), step_.data());
  for (double& each : step_) each = -each;
  return -dot(step_, gradient_.data());
}

// Newton steps on the model from next_, damped while the decrement is large, until it falls below
// `enough` or, for enough = 0, as far as rounding allows. False if `most` steps were not enough.
bool LeaderSolver::descend(const std::vector<double>& curvature, double size, double enough,
                           int most) {
  double last = kInfinity;
  for (int k = 0; k < most; ++k) {
    const double decrement = newton_step(curvature);
    if (!std::isfinite(decrement)) throw StateError("the leader cannot be found");
    if (decrement <= enough) return true;
    const double length = norm(gradient_.data(), n_);
    if (length <= std::numeric_limits<double>::epsilon() * size) return true;
    const bool damped = path_.barrier && decrement > kFullStep * std::min(path_.weight, 1.0);
    if (!damped && length >= kContraction * last) return true;  // all that rounding leaves
    last = damped ? kInfinity : length;
    double t = 1.0;
    if (damped) t = std::min(t, kReach * path_.distance(next_.data(), step_.data()));
    const double before = damped ? model_value(curvature.data(), next_.data()) : 0.0;
    for (int halving = 0;; ++halving, t *= 0.5) {
      for (std::size_t i = 0; i < n_; ++i) trial_[i] = next_[i] + t * step_[i];
      if (!damped || halving == kMostHalvings ||
          model_value(curvature.data(), trial_.data()) <= before - kArmijo * t * decrement) {
        break;
      }
    }
    next_.swap(trial_);
  }
  return false;
}

// next_ = minimiser of the losses' model at `at`, plus regularizer, plus <z, .>. Near the last
// minimiser Newton steps lead there; from afar they would creep along the boundary, for the
// barrier's weight is small. So they start at the centre then, with a weight that keeps the
// minimiser near it and is brought down by degrees.
void LeaderSolver::minimize_model(const LeaderPoint& at, const double* z, bool near) {
  const std::vector<double>& a = at.curvature;
  for (std::size_t i = 0; i < n_; ++i) {
    linear_[i] = at.slope[i] + z[i] - dot(at.u, a.data() + i * n_);
  }
  const double size = norm(z, n_) + norm(at.slope.data(), n_) + norm(linear_.data(), n_);
  next_ = at.u;
  path_.weight = regularizer_.weight;
  if (!path_.barrier) near = true;
  if (near && descend(a, size, 0.0, kNearSteps)) return;
  std::fill(next_.begin(), next_.end(), 0.0);
  while (newton_step(a) > path_.weight && path_.weight < kLargestWeight) path_.weight *= kDegree;
  while (path_.weight > regularizer_.weight) {
    descend(a, size, kCentral * path_.weight, kMostNewtonSteps);
    path_.weight = std::max(path_.weight / kDegree, regularizer_.weight);
  }
  descend(a, size, 0.0, kMostNewtonSteps);
}

// BFGS: the model agrees with the change of gradient along the step, and stays positive
// semidefinite.
void LeaderSolver::learn(LeaderPoint& at) {
  double* s = step_.data();
  double* y = trial_.data();
  double* as = gradient_.data();
  for (std::size_t i = 0; i < n_; ++i) {
    s[i] = next_[i] - at.u[i];
    y[i] = next_slope_[i] - at.slope[i];
  }
  for (std::size_t i = 0; i < n_; ++i) as[i] = dot(step_, at.curvature.data() + i * n_);
  const double old_bend = dot(step_, as);
  const double new_bend = dot(step_, y);
  const double length = norm(s, n_);
  if (!(old_bend > 1e-14 * length * norm(as, n_)) || !(new_bend > 1e-14 * length * norm(y, n_))) {
    return;
  }
  for (std::size_t i = 0; i < n_; ++i) {
    double* row = at.curvature.data() + i * n_;
    const double up = y[i] / new_bend;
    const double down = as[i] / old_bend;
    for (std::size_t j = 0; j < n_; ++j) row[j] += up * y[j] - down * as[j];
  }
}

void LeaderSolver::move(LeaderPoint& at) {
  at.u.swap(next_);
  at.slope.swap(next_slope_);
}

// Pulls next_ back toward at.u until the objective falls; false if it never does.
bool LeaderSolver::shorten(const losses::LossSum& sum, const double* z, const LeaderPoint& at) {
  const auto objective = [&](const double* u) {
    return sum.value(u) + regularizer_.value(u) + simd::kernels().dot(z, u, n_);
  };
  regularizer_.gradient(at.u.data(), gradient_.data());
  double slope = 0.0;
  for (std::size_t i = 0; i < n_; ++i) {
    step_[i] = next_[i] - at.u[i];
    slope += step_[i] * (gradient_[i] + at.slope[i] + z[i]);
  }
  const double before = objective(at.u.data());
  double t = 1.0;
  for (int halving = 0; halving < kMostHalvings; ++halving, t *= 0.5) {
    for (std::size_t i = 0; i < n_; ++i) next_[i] = at.u[i] + t * step_[i];
    if (objective(next_.data()) <= before + kArmijo * t * slope) return true;
  }
  return false;
}

double LeaderSolver::solve(const losses::LossSum& sum, const double* z, double tolerance,
                           LeaderPoint& at) {
  double last = residual(at.slope.data(), z, at.u.data());
  for (int k = 0; k < kMostSteps; ++k) {
    if (last <= kTolerance * scale(at.slope.data(), z, at.u.data())) return last;
    minimize_model(at, z, k > 0);
    sum.gradient(next_.data(), next_slope_.data());
    double left = residual(next_slope_.data(), z, next_.data());
    if (!std::isfinite(left)) throw StateError("the leader cannot be found");
    if (left <= kContraction * last ||
        left <= kTolerance * scale(next_slope_.data(), z, next_.data())) {
      learn(at);
      move(at);
      last = left;
      continue;
    }
    const std::vector<double>& best = left < last ? next_ : at.u;
    if (std::min(left, last) <= std::max(tolerance, rounding(best, at.curvature))) {
      if (left < last) move(at);
      return std::min(left, last);
    }
    if (left >= last) {
      // The model's minimiser lies where the objective falls, if not how far.
      if (!shorten(sum, z, at)) break;
      sum.gradient(next_.data(), next_slope_.data());
      left = residual(next_slope_.data(), z, next_.data());
    }
    move(at);
    sum.hessian(at.u.data(), at.curvature.data());
    last = left;
  }
  throw StateError("the leader cannot be found to the precision its guarantee needs");
}

}  // namespace dpoco::oco
