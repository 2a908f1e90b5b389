#include <algorithm>
#include <cmath>
#include <utility>

#include "mode.hpp"

namespace dpoco::samplers {

using domains::Body;

QuadraticModel::QuadraticModel(Body body)
    : body_(std::move(body)),
      factor_(body_.dimension()),
      eigen_(body_.dimension()),
      slope_(body_.dimension()),
      ahead_(body_.dimension()),
      next_(body_.dimension()) {}

void QuadraticModel::minimize(const Matrix& hessian, const Vector& gradient, const Vector& at,
                              double least, Vector& out) {
  factor_.compute(hessian);
  if (factor_.info() == Eigen::Success) {
    out = gradient;
    factor_.solveInPlace(out);
    out = at - out;
    if (body_.contains(view(out), 0.0)) return;
  }
  switch (body_.kind()) {
    case Body::Kind::box:
      return minimize_box(hessian, gradient, at, out);
    case Body::Kind::ball:
      return minimize_ball(hessian, gradient, at, out);
    default:
      return minimize_projected(hessian, gradient, at, least, out);
  }
}

// Newton steps in the free coordinates, projected back, until the set of active walls no longer
// changes.
void QuadraticModel::minimize_box(const Matrix& hessian, const Vector& gradient, const Vector& at,
                                  Vector& out) {
  const Index n = body_.dimension();
  const Vector& half = body_.half_widths();
  Eigen::Matrix<Index, Eigen::Dynamic, 1> free(n);
  Matrix reduced(n, n);
  Vector step(n);
  out = at;
  const auto model = [&](const Vector& v) {
    next_ = v - at;
    slope_.noalias() = hessian * next_;
    return next_.dot(0.5 * slope_ + gradient);
  };
  double best = model(out);
  const Index most = 50 + 4 * n;
  for (Index round = 0; round < most; ++round) {
    next_ = out - at;
    slope_.noalias() = hessian * next_;
    slope_ += gradient;
    Index count = 0;
    for (Index i = 0; i < n; ++i) {
      const bool stuck =
          (out[i] <= -half[i] && slope_[i] > 0.0) || (out[i] >= half[i] && slope_[i] < 0.0);
      if (!stuck) free[count++] = i;
    }
    if (count == 0) return;
    auto block = reduced.topLeftCorner(count, count);
    for (Index i = 0; i < count; ++i) {
      step[i] = -slope_[free[i]];
      for (Index j = 0; j < count; ++j) block(i, j) = hessian(free[i], free[j]);
    }
    const Eigen::LLT<Matrix> factor(block);
    if (factor.info() != Eigen::Success) return;
    const Vector direction = factor.solve(step.head(count));
    bool moved = false;
    for (double length = 1.0; length > 1e-10; length *= 0.5) {
      ahead_ = out;
      for (Index i = 0; i < count; ++i) {
        const Index k = free[i];
        ahead_[k] = std::clamp(out[k] + length * direction[i], -half[k], half[k]);
      }
      const double reached = model(ahead_);
      if (reached < best) {
        best = reached;
        moved = ahead_ != out;
        out = ahead_;
        break;
      }
    }
    if (!moved) return;
  }
}

// Solves (H + m I) v = H at - g for the multiplier m > 0 that puts v on the sphere. Newton's method
// on the concave 1/|v(m)| - 1/R approaches the root from below.
void QuadraticModel::minimize_ball(const Matrix& hessian, const Vector& gradient, const Vector& at,
                                   Vector& out) {
  const double radius = body_.radius();
  eigen_.compute(hessian);
  next_.noalias() = hessian * at;
  next_ -= gradient;
  slope_.noalias() = eigen_.eigenvectors().transpose() * next_;
  const Vector& roots = eigen_.eigenvalues();
  double multiplier = 0.0;
  for (int k = 0; k < 100; ++k) {
    ahead_ = slope_.array() / (roots.array() + multiplier);
    const double size = ahead_.norm();
    const double change = (ahead_.array().square() / (roots.array() + multiplier)).sum();
    const double step = (size - radius) / radius * (size * size / change);
    if (!(step > 1e-16 * (multiplier + roots[0]))) break;
    multiplier += step;
  }
  ahead_ = slope_.array() / (roots.array() + multiplier);
  const double size = ahead_.norm();
  if (size > radius) ahead_ *= radius / size;
  out.noalias() = eigen_.eigenvectors() * ahead_;
}

void QuadraticModel::minimize_projected(const Matrix& hessian, const Vector& gradient,
                                        const Vector& at, double least, Vector& out) {
  constexpr int kMostSteps = 20000;
  eigen_.compute(hessian, Eigen::EigenvaluesOnly);
  const double greatest = eigen_.eigenvalues()[body_.dimension() - 1];
  const double root = std::sqrt(std::min(least / greatest, 1.0));
  const double momentum = (1.0 - root) / (1.0 + root);
  body_.project(view(at), view(out));
  ahead_ = out;
  for (int k = 0; k < kMostSteps; ++k) {
    next_ = ahead_ - at;
    slope_.noalias() = hessian * next_;
    slope_ += gradient;
    slope_ = ahead_ - slope_ / greatest;
    body_.project(view(slope_), view(next_));
    slope_ = next_ - out;
    const double moved = slope_.norm();
    // Drops momentum that points uphill.
    const bool uphill = (ahead_ - next_).dot(slope_) > 0.0;
    ahead_ = next_;
    if (!uphill) ahead_ += momentum * slope_;
    out.swap(next_);
    if (moved <= 1e-15 * out.norm()) return;
  }
}

}  // namespace dpoco::samplers
