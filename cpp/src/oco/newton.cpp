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

// A point counts as the minimiser if the gradient is at most this size: relative to its terms, and
// relative to the tolerance.
constexpr double kTolerance = 1e-12;
constexpr double kEnough = 0.1;
// A step that leaves more than this share of the gradient shows a bad model.
constexpr double kContraction = 0.5;
// Convergence takes about six steps. Hundreds of steps mean that the losses are not convex and
// smooth.
constexpr int kMostSteps = 1000;
constexpr int kMostNewtonSteps = 200;
constexpr int kMostHalvings = 60;
// Newton steps go at most this share of the way to the boundary.
constexpr double kReach = 0.9;
// A step is long enough if it leaves at most this share of the slope along it.
constexpr double kFlat = 0.5;
// Bisection ends long before this, whatever the size of the doubles.
constexpr int kMostTrials = 200;
// After this many searches that do not halve the gradient, only rounding errors are left.
constexpr int kMostIdle = 40;
// Relative sizes of the ridge that is added to a matrix that is singular up to rounding.
constexpr double kLeastRidge = 1e-14;
constexpr double kMostRidge = 1.0;
constexpr double kRidgeGrowth = 100.0;
// If the barrier terms of a model's Hessian differ by this factor, they are added one by one. A
// step needs no more than four digits.
constexpr double kSteep = 1e12;
// For a convex sum, the gradient falls below this share of its terms.
constexpr double kConvex = 1e-6;
// Full steps are safe if the squared Newton decrement, in units of the barrier weight, is below
// this.
constexpr double kFullStep = 1e-2;
// Newton steps that a start near the minimiser may need.
constexpr int kNearSteps = 12;
// The barrier's weight changes by the factor kDegree each time the squared decrement is below
// kCentral times the weight. It never needs to exceed kLargestWeight.
constexpr double kDegree = 10.0;
constexpr double kCentral = 0.1;
constexpr double kLargestWeight = 1e30;

using simd::dot;

double norm(std::span<const double> x) { return std::sqrt(dot(x, x)); }

// Row i of a square matrix whose rows are as long as x.
std::span<const double> matrix_row(const std::vector<double>& matrix, std::size_t i,
                                   const std::vector<double>& x) {
  return std::span(matrix).subspan(i * x.size(), x.size());
}

}  // namespace

LeaderSolver::LeaderSolver(Regularizer regularizer)
    : regularizer_(std::move(regularizer)),
      path_(regularizer_),
      n_(static_cast<std::size_t>(regularizer_.dimension)),
      factor_(regularizer_.dimension),
      linear_(n_, 0.0),
      next_(linear_),
      next_slope_(linear_),
      next_bend_(n_ * n_, 0.0),
      bend_(next_bend_),
      gradient_(linear_),
      step_(linear_),
      trial_(linear_),
      matrix_(n_ * n_, 0.0) {}

// |grad J(u) + z|
double LeaderSolver::residual(Linear slope, Linear z, std::span<const double> u) {
  regularizer_.gradient(u, gradient_);
  for (std::size_t i = 0; i < n_; ++i) gradient_[i] += slope[i] + z[i];
  return norm(gradient_);
}

double LeaderSolver::scale(const LeaderPoint& at, Linear z) const {
  return norm(z) + norm(at.slope) + regularizer_.inverse_step * norm(at.u);
}

// The effect of the rounding of u itself on the gradient. Close to the boundary, where strong
// losses hold u, the barrier is so steep that this exceeds any fixed tolerance.
double LeaderSolver::rounding(const std::vector<double>& u, const std::vector<double>& curvature) {
  std::copy(curvature.begin(), curvature.end(), matrix_.begin());
  regularizer_.add_hessian(u, matrix_);
  const double ulps = 16.0 + static_cast<double>(n_);
  return ulps * std::numeric_limits<double>::epsilon() * norm(matrix_) * norm(u);
}

// Factors the model's Hessian at u into factor_. If rounding made it indefinite, increases the
// diagonal: any positive definite matrix gives a descent direction.
bool LeaderSolver::factor_model(const std::vector<double>& u,
                                const std::vector<double>& curvature) {
  if (path_.factor(u, curvature, matrix_, factor_, kSteep)) return true;
  double most = 0.0;
  for (std::size_t i = 0; i < n_; ++i) most = std::max(most, std::fabs(matrix_[i * n_ + i]));
  for (double ridge = kLeastRidge; ridge <= kMostRidge; ridge *= kRidgeGrowth) {
    for (std::size_t i = 0; i < n_; ++i) {
      double& own = matrix_[i * n_ + i];
      own += ridge * (own > 0.0 ? own : most);
    }
    if (factor_.compute(matrix_)) return true;
  }
  return false;
}

// Computes the model's Newton step at next_ into step_. Returns its squared decrement, which is not
// finite if there is no step.
double LeaderSolver::newton_step(const std::vector<double>& curvature) {
  path_.gradient(next_, gradient_);
  for (std::size_t i = 0; i < n_; ++i) {
    gradient_[i] += linear_[i] + dot(next_, matrix_row(curvature, i, next_));
  }
  if (!factor_model(next_, curvature)) return kInfinity;
  factor_.solve(gradient_, step_);
  for (double& each : step_) each = -each;
  return -dot(step_, gradient_);
}

// Returns whether u'Au/2 + <linear_, u> + regularizer does not increase at trial_ along step_.
bool LeaderSolver::falls(const std::vector<double>& curvature) {
  path_.gradient(trial_, gradient_);
  for (std::size_t i = 0; i < n_; ++i) {
    gradient_[i] += linear_[i] + dot(trial_, matrix_row(curvature, i, trial_));
  }
  return dot(step_, gradient_) <= 0.0;
}

// Finds a point trial_ on the way from next_ along step_ from which the model still decreases.
// Returns false if there is none.
bool LeaderSolver::damp(const std::vector<double>& curvature) {
  double t = std::min(1.0, kReach * path_.distance(next_, step_));
  for (int halving = 0; halving < kMostHalvings; ++halving, t *= 0.5) {
    for (std::size_t i = 0; i < n_; ++i) trial_[i] = next_[i] + t * step_[i];
    if (path_.inside(trial_) && falls(curvature)) return true;
  }
  return false;
}

// Takes Newton steps on the model from next_, damped while the decrement is large, until the
// decrement falls below `enough`, or for enough = 0 as far as rounding allows. Returns false if
// `most` steps were not enough.
bool LeaderSolver::descend(const std::vector<double>& curvature, double size, double enough,
                           int most) {
  double last = kInfinity;
  double last_decrement = kInfinity;
  for (int k = 0; k < most; ++k) {
    const double decrement = newton_step(curvature);
    if (!std::isfinite(decrement)) return false;
    if (decrement <= enough) return true;
    const double length = norm(gradient_);
    if (length <= std::numeric_limits<double>::epsilon() * size) return true;
    const bool damped = path_.barrier && decrement > kFullStep * std::min(path_.weight, 1.0);
    // Stops if only rounding errors are left. Close to a wall, the gradient may grow once while the
    // decrement falls. If the losses are costly to evaluate, the solver takes a further step in
    // this case.
    const bool falling =
        costly_ && length > kConvex * size && decrement < kContraction * last_decrement;
    if (!damped && !falling && length >= kContraction * last) return true;
    last = damped ? kInfinity : length;
    last_decrement = decrement;
    for (std::size_t i = 0; i < n_; ++i) trial_[i] = next_[i] + step_[i];
    if ((damped || !path_.inside(trial_)) && !damp(curvature)) return true;
    next_.swap(trial_);
  }
  return false;
}

// next_ = minimiser of the losses' model at `at`, plus regularizer, plus <z, .>. Near the last
// minimiser Newton steps lead there. From far away they would creep along the boundary, because the
// barrier's weight is small. So they start at the centre, with a weight that keeps the minimiser
// near it and is reduced step by step.
void LeaderSolver::minimize_model(const LeaderPoint& at, Linear z, bool near) {
  const std::vector<double>& a = at.curvature;
  for (std::size_t i = 0; i < n_; ++i) {
    linear_[i] = at.slope[i] + z[i] - dot(at.u, matrix_row(a, i, at.u));
  }
  const double size = norm(z) + norm(at.slope) + norm(linear_);
  next_ = at.u;
  path_.weight = regularizer_.weight;
  if (!path_.barrier) near = true;
  if (near && descend(a, size, 0.0, kNearSteps)) return;
  std::fill(next_.begin(), next_.end(), 0.0);
  while (!(newton_step(a) <= path_.weight) && path_.weight < kLargestWeight) {
    path_.weight *= kDegree;
  }
  while (path_.weight > regularizer_.weight) {
    descend(a, size, kCentral * path_.weight, kMostNewtonSteps);
    path_.weight = std::max(path_.weight / kDegree, regularizer_.weight);
  }
  descend(a, size, 0.0, kMostNewtonSteps);
}

// Evaluates the losses at next_ and returns the size of the remaining gradient. At the minimiser
// the Hessian is needed next. If the losses do not fit into the cache, the evaluation that is
// likely to be the last, judging by the previous solve, computes it in the same pass.
double LeaderSolver::look(losses::LossSum& sum, Linear z) {
  next_exact_ = ++looks_ >= expected_looks_ && costly_;
  if (next_exact_) {
    sum.gradient_and_hessian(next_, next_slope_, next_bend_);
  } else {
    sum.gradient(next_, next_slope_);
  }
  return residual(next_slope_, z, next_);
}

// BFGS: the model agrees with the change of gradient along the step, and stays positive
// semidefinite.
void LeaderSolver::learn(LeaderPoint& at) {
  const std::span<double> s = step_, y = trial_, as = gradient_;
  for (std::size_t i = 0; i < n_; ++i) {
    s[i] = next_[i] - at.u[i];
    y[i] = next_slope_[i] - at.slope[i];
  }
  for (std::size_t i = 0; i < n_; ++i) as[i] = dot(s, matrix_row(at.curvature, i, step_));
  const double old_bend = dot(s, as);
  const double new_bend = dot(s, y);
  const double length = norm(s);
  if (!(old_bend > 1e-14 * length * norm(as)) || !(new_bend > 1e-14 * length * norm(y))) {
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
  if (next_exact_) bend_.swap(next_bend_);
  at.exact = next_exact_;
}

// The derivative of the objective at at.u + t step_, a point that is written to trial_. Infinite
// outside the barrier's interior.
double LeaderSolver::line_slope(losses::LossSum& sum, Linear z, const LeaderPoint& at, double t) {
  for (std::size_t i = 0; i < n_; ++i) trial_[i] = at.u[i] + t * step_[i];
  if (!regularizer_.inside(trial_)) return kInfinity;
  regularizer_.gradient(trial_, gradient_);
  for (std::size_t i = 0; i < n_; ++i) gradient_[i] += z[i];
  const double slope = sum.line_slope(t) + dot(step_, gradient_);
  return std::isfinite(slope) ? slope : kInfinity;
}

// next_ = a point on the ray from at.u along step_ where the objective still decreases, but at most
// kFlat times as fast as at at.u; in one dimension, the last such double. If there is none between
// at.u and the first double where the objective increases, next_ is that double and the result is
// false.
bool LeaderSolver::search(losses::LossSum& sum, Linear z, const LeaderPoint& at) {
  next_ = at.u;
  sum.prepare_line(at.u, step_);
  const double first = line_slope(sum, z, at, 0.0);
  if (!(first < 0.0)) return false;
  const double enough = n_ == 1 ? 0.0 : kFlat * first;
  double low = 0.0;
  double high = regularizer_.distance(at.u, step_);
  double low_slope = first;
  double high_slope = kInfinity;
  bool risen = false;
  double t = std::min(1.0, kReach * high);
  for (int k = 0; k < kMostTrials; ++k) {
    const double slope = line_slope(sum, z, at, t);
    if (slope <= 0.0) {
      if (trial_ == next_) break;
      low = t;
      low_slope = slope;
      next_ = trial_;
      if (slope >= enough) break;
    } else {
      high = t;
      high_slope = slope;
      if (risen && trial_ == next_) break;
      risen = true;
    }
    const bool bent = std::isfinite(high_slope);
    if (!risen) {
      t = std::min(4.0 * low, low + kReach * (high - low));
    } else if (bent && k % 2 == 0) {
      t = low + (high - low) * (low_slope / (low_slope - high_slope));
    } else {
      t = 0.5 * (low + high);
    }
    if (!(t > low) || !(t < high)) break;
  }
  if (low > 0.0 && next_ != at.u) return true;
  for (std::size_t i = 0; i < n_; ++i) next_[i] = at.u[i] + high * step_[i];
  return false;
}

// Moves `at` to a lower point and computes the exact Hessian there. Returns false if there is no
// lower point. Then `at` stays, or moves by the last bits of u to where the gradient is smaller.
bool LeaderSolver::improve(losses::LossSum& sum, Linear z, LeaderPoint& at, double& last) {
  bool found = true;
  for (std::size_t i = 0; i < n_; ++i) step_[i] = next_[i] - at.u[i];
  if (!search(sum, z, at)) {
    // Tries the exact Newton step, because the model may have been far off.
    sum.hessian(at.u, at.curvature);
    path_.weight = regularizer_.weight;
    residual(at, z);
    found = false;
    if (factor_model(at.u, at.curvature)) {
      factor_.solve(gradient_, step_);
      for (double& each : step_) each = -each;
      found = search(sum, z, at);
    }
  }
  if (!found && !regularizer_.inside(next_)) return false;
  const double left = look(sum, z);
  if (!std::isfinite(left) || (!found && !(left < last))) return false;
  move(at);
  last = left;
  if (found) sum.hessian(at.u, at.curvature);
  return found;
}

// Moves to the centre, where all values are finite if they are finite anywhere.
void LeaderSolver::restart(losses::LossSum& sum, LeaderPoint& at) {
  std::fill(at.u.begin(), at.u.end(), 0.0);
  sum.gradient(at.u, at.slope);
  sum.hessian(at.u, at.curvature);
}

double LeaderSolver::solve(losses::LossSum& sum, Linear z, double tolerance, LeaderPoint& at) {
  costly_ = sum.beyond_cache();
  expected_looks_ = std::exchange(looks_, 0);
  at.exact = false;
  double last = residual(at, z);
  if (!std::isfinite(last)) {
    restart(sum, at);
    last = residual(at, z);
    if (!std::isfinite(last)) throw StateError("the leader cannot be found");
  }
  double best = last;  // the smallest residual at the start of a search
  int idle = 0;
  for (int k = 0; k < kMostSteps && idle < kMostIdle; ++k) {
    const double enough = std::max(kTolerance * scale(at, z), kEnough * tolerance);
    if (last <= enough) return last;
    minimize_model(at, z, k > 0);
    double left = kInfinity;
    if (regularizer_.inside(next_)) left = look(sum, z);
    if (left <= kContraction * best || left <= enough) {
      learn(at);
      move(at);
      last = left;
      best = std::min(best, left);
      idle = 0;
      continue;
    }
    const std::vector<double>& nearest = left < last ? next_ : at.u;
    if (std::min(left, last) <= std::max(tolerance, rounding(nearest, at.curvature))) {
      if (left < last) move(at);
      return std::min(left, last);
    }
    if (left < last && idle == 0) {
      move(at);
      sum.hessian(at.u, at.curvature);
      last = left;
    } else if (!improve(sum, z, at, last)) {
      break;
    }
    idle = last <= kContraction * best ? 0 : idle + 1;
    best = std::min(best, last);
  }
  if (sum.kind() == losses::LossSum::Kind::custom && last > kConvex * scale(at, z) &&
      last > std::max(tolerance, rounding(at.u, at.curvature))) {
    throw StateError("the leader cannot be found: the losses are not convex and smooth");
  }
  return last;
}

}  // namespace dpoco::oco
