#include "mode.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace dpoco::samplers {

using domains::Body;
using losses::LossSum;

namespace {

constexpr int kMostRounds = 200;
// After this many rounds that do not halve the residual, the losses are taken to have kinks.
constexpr int kIdleRounds = 40;
constexpr int kIdleCustomRounds = 8;

}  // namespace

ModeSolver::ModeSolver(Body body, double regularization)
    : body_(body),
      regularization_(regularization),
      model_(std::move(body)),
      factor_(body_.dimension()),
      hessian_(body_.dimension(), body_.dimension()),
      barrier_hessian_(body_.dimension(), body_.dimension()),
      gradient_(body_.dimension()),
      target_(body_.dimension()),
      step_(body_.dimension()),
      trial_(body_.dimension()),
      best_(body_.dimension()),
      scratch_(body_.dimension()) {
  if (body_.kind() != Body::Kind::lp_ball || body_.exponent() >= 2.0) barrier_ = body_.barrier();
}

double ModeSolver::value(LossSum& sum, const Vector& u) const {
  return sum.value(view(u)) + 0.5 * regularization_ * u.squaredNorm();
}

void ModeSolver::derivatives(LossSum& sum, const Vector& u) {
  sum.gradient_and_hessian(view(u), view(gradient_), view(hessian_));
  gradient_ += regularization_ * u;
  hessian_.diagonal().array() += regularization_;
}

double ModeSolver::residual(const Vector& u) {
  const double scale = hessian_.trace();
  trial_ = u - gradient_ / scale;
  body_.project(view(trial_), view(scratch_));
  return scale * (u - scratch_).norm();
}

// Returns the length in (0, 1] that minimises J along u + length * step_, given J's slope < 0 at 0.
// Bisects the slope, which rounding disturbs less than the value. Returns 0 if a user's loss shows
// a kink: it is slow to evaluate, and further steps would not help.
double ModeSolver::search(LossSum& sum, const Vector& u, double slope) {
  sum.prepare_line(view(u), view(step_));
  const double cross = u.dot(step_);
  const double square = step_.squaredNorm();
  const auto slope_at = [&](double t) {
    return sum.line_slope(t) + regularization_ * (cross + t * square);
  };
  const bool custom = sum.kind() == LossSum::Kind::custom;
  double low = 0.0;
  double high = 1.0;
  double slope_low = slope;
  double slope_high = slope_at(1.0);
  if (slope_high <= 1e-3 * -slope) return 1.0;
  for (int k = 0; k < 60 && high - low > 1e-12; ++k) {
    // A secant step, kept away from the ends so that the bracket shrinks.
    const double width = high - low;
    const bool jumps = std::min(slope_high, -slope_low) >= 0.1 * -slope;
    if (custom && width < 1e-4 && jumps) return 0.0;
    double t = low + width * (slope_low / (slope_low - slope_high));
    if (k % 3 == 2 || !(t > low + 0.01 * width) || !(t < high - 0.01 * width)) {
      t = low + 0.5 * width;
    }
    const double here = slope_at(t);
    (here <= 0.0 ? low : high) = t;
    (here <= 0.0 ? slope_low : slope_high) = here;
    if (std::fabs(here) <= 1e-3 * -slope) return t;
  }
  return low > 0.0 ? low : high;
}

double ModeSolver::solve(LossSum& sum, Vector& u) {
  u.setZero();
  derivatives(sum, u);
  const double start = gradient_.norm();
  best_ = u;
  double best = std::numeric_limits<double>::infinity();
  int stalled = 0;
  const bool custom = sum.kind() == LossSum::Kind::custom;
  const int most_idle = custom ? kIdleCustomRounds : kIdleRounds;
  for (int round = 0; round < kMostRounds; ++round) {
    scratch_ = gradient_ - regularization_ * u;
    const double size = std::max(start, scratch_.norm());
    const double here = size > 0.0 ? residual(u) / size : 0.0;
    if (here < best) {
      stalled = here < 0.5 * best ? 0 : stalled + 1;
      best = here;
      best_ = u;
    } else {
      ++stalled;
    }
    if (here <= 1e-14 || (best <= 1e-11 && stalled >= 4)) break;
    if (stalled >= most_idle) break;
    model_.minimize(hessian_, gradient_, u, regularization_, target_);
    step_ = target_ - u;
    const double slope = gradient_.dot(step_);
    const double now = value(sum, u);
    // If rounding hides the descent, the solver tries whole steps until the residual stops falling.
    const double hidden = 1e-12 * (1.0 + std::fabs(now));
    if (!(slope < hidden)) break;
    const bool whole = slope > -hidden || value(sum, target_) <= now + 0.1 * slope;
    const double length = whole ? 1.0 : search(sum, u, slope);
    if (length == 0.0) return std::numeric_limits<double>::infinity();
    if (length == 1.0) {
      u = target_;
    } else {
      u += length * step_;
    }
    derivatives(sum, u);
  }
  u = best_;
  return best;
}

// Without a barrier: takes the Hessian of beta J at the mode, and moves the mode away from the
// walls.
void ModeSolver::widen(double inverse_temperature, Vector& u, Matrix& hessian) const {
  hessian = inverse_temperature * hessian_;
  if (body_.kind() == Body::Kind::space) return;
  u *= 0.9;
  hessian.diagonal().array() += 1.0 / (body_.extent() * body_.extent());
}

void ModeSolver::central(LossSum& sum, double inverse_temperature, Vector& u, Matrix& hessian) {
  if (barrier_) {
    descend(
        inverse_temperature, u, hessian, [&](const Vector& at) { return value(sum, at); },
        [&](const Vector& at) { derivatives(sum, at); });
    return;
  }
  solve(sum, u);
  derivatives(sum, body_.kind() == Body::Kind::space ? u : Vector(0.9 * u));
  widen(inverse_temperature, u, hessian);
}

void ModeSolver::central(const Minorant& tangent, const Matrix& bend, double inverse_temperature,
                         Vector& u, Matrix& hessian) {
  hessian_ = bend;
  hessian_.diagonal().array() += regularization_;
  if (!barrier_) {
    u = tangent.at;
    widen(inverse_temperature, u, hessian);
    return;
  }
  descend(
      inverse_temperature, u, hessian,
      [&](const Vector& at) {
        target_ = at - tangent.at;
        return tangent.slope.dot(target_) + 0.5 * target_.dot(bend * target_) +
               0.5 * regularization_ * at.squaredNorm();
      },
      [&](const Vector& at) {
        gradient_ = tangent.slope + bend * (at - tangent.at) + regularization_ * at;
      });
}

// Newton's method on beta J plus the barrier, from the centre. `derivatives` fills gradient_ and
// hessian_.
template <class Value, class Derivatives>
void ModeSolver::descend(double inverse_temperature, Vector& u, Matrix& hessian, Value energy,
                         Derivatives derivatives) {
  const double beta = inverse_temperature;
  u.setZero();
  double now = beta * energy(u) + barrier_->value(u);
  for (int round = 0;; ++round) {
    derivatives(u);
    barrier_->gradient(u, step_);
    barrier_->hessian(u, barrier_hessian_);
    gradient_ = beta * gradient_ + step_;
    hessian = beta * hessian_;
    hessian += barrier_hessian_;
    factor_.compute(hessian);
    if (round == kMostRounds || factor_.info() != Eigen::Success) return;
    step_ = gradient_;
    factor_.solveInPlace(step_);
    const double decrement = gradient_.dot(step_);
    // A third of a standard deviation of the law is near enough.
    if (!(decrement > 0.1)) return;
    step_ = -step_;
    double length = std::min(1.0, 0.95 * barrier_->distance(u, step_));
    for (; length > 1e-12; length *= 0.5) {
      trial_ = u + length * step_;
      const double reached = beta * energy(trial_) + barrier_->value(trial_);
      if (reached <= now - 0.1 * length * decrement) {
        now = reached;
        break;
      }
    }
    if (!(length > 1e-12)) return;
    u = trial_;
  }
}

}  // namespace dpoco::samplers
