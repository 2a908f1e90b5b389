#include "dpoco/oco/quadratic_leader.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/packed.hpp"

namespace dpoco::oco {
namespace {

// Enough for a condition number of 10^5 from a cold start. In a stream the next minimiser is near.
constexpr int kSteps = 10'000;
constexpr double kTolerance = 1e-13;

}  // namespace

double euclidean_radius(const domains::Domain& domain) {
  const auto* ball = dynamic_cast<const domains::LpBall*>(&domain);
  return ball != nullptr && ball->p() == 2.0 ? ball->radius() : 0.0;
}

// x_i = b_i / (A_i + nu), where nu >= 0 and ||x|| = radius, or nu = 0 if that point is inside.
// Newton's method on 1/||x|| - 1/radius increases monotonically to the root (Conn, Gould and Toint,
// "Trust Region Methods", Section 7.3).
double minimize_on_ball(const Vector& spectrum, const Vector& linear, double radius, Vector& x) {
  double shift = 0.0;
  constexpr int kNewtonSteps = 100;  // it is quadratic: the bound is for termination only
  for (int step = 0; step < kNewtonSteps; ++step) {
    x = linear.array() / (spectrum.array() + shift);
    const double norm = x.norm();
    if (norm <= radius) break;
    const double change = ((x / norm).array().square() / (spectrum.array() + shift)).sum();
    const double next = shift + ((norm - radius) / radius) / change;
    if (!(next > shift)) break;
    shift = next;
  }
  return shift;
}

// Let h = 1 / (M+ + ridge + multiplier) and t = x - c. The derivative of x along a change of M by
// the unit matrix of (i, j) is P (h g). P projects along the boundary: I - n t'/(n.t) with n = h t
// on it, I inside. g has the entries -rho x_j and -rho x_i, and rho is the divided difference of
// max(w, 0).
SteinTerms stein_terms(std::span<const double> spectrum, std::span<const double> inverse,
                       std::span<const double> x, std::span<const double> from_center,
                       bool constrained) {
  const std::size_t d = spectrum.size();
  SteinTerms out;
  double whole = 0.0;
  for (std::size_t i = 0; i < d; ++i) whole += inverse[i] * from_center[i] * from_center[i];
  const double pull = constrained && whole > 0.0 ? 1.0 / whole : 0.0;
  for (std::size_t i = 0; i < d; ++i) {
    const double w = spectrum[i];
    const double n = inverse[i] * from_center[i];
    out.vector += inverse[i] * (1.0 - n * from_center[i] * pull);
    if (w > 0.0) out.matrix -= 2.0 * x[i] * x[i] * (inverse[i] - n * n * pull);
    for (std::size_t j = i + 1; j < d; ++j) {
      const double v = spectrum[j];
      if (w <= 0.0 && v <= 0.0) continue;
      const double rho = w > 0.0 && v > 0.0 ? 1.0 : w > 0.0 ? w / (w - v) : v / (v - w);
      const double m = inverse[j] * from_center[j];
      const double along = n * x[j] + m * x[i];
      out.matrix -=
          rho * (inverse[j] * x[i] * x[i] + inverse[i] * x[j] * x[j] - along * along * pull);
    }
  }
  return out;
}

QuadraticLeader::QuadraticLeader(std::shared_ptr<const domains::Domain> domain, double radius)
    : domain_(std::move(domain)),
      ball_radius_(euclidean_radius(*domain_)),
      radius_(radius),
      center_(domain_->dimension()),
      matrix_(domain_->dimension(), domain_->dimension()),
      eigen_(domain_->dimension()),
      vector_(domain_->dimension()) {
  if (!(radius >= 0.0)) throw std::invalid_argument("radius must not be negative");
  domain_->center(view(center_));
}

void QuadraticLeader::minimize(std::span<const double> packed, double vector_scale, double ridge,
                               std::span<double> x) {
  decompose(packed, vector_scale);
  solve(ridge, x);
}

void QuadraticLeader::decompose(std::span<const double> packed, double vector_scale) {
  assert(std::ssize(packed) >= center_.size() * (center_.size() + 3) / 2);
  const std::span<const double> vector = unpack(packed, matrix_);
  for (Index i = 0; i < center_.size(); ++i) vector_[i] = vector[i] / vector_scale;
  eigen_.compute(matrix_);
}

void QuadraticLeader::solve(double ridge, std::span<double> x) {
  spectrum_ = eigen_.eigenvalues().cwiseMax(0.0).array() + ridge;
  linear_ = vector_ + ridge * center_;
  if (ball_radius_ > 0.0) {
    momentum_ = eigen_.eigenvectors().transpose() * linear_;
    multiplier_ = minimize_on_ball(spectrum_, momentum_, ball_radius_, point_);
    next_ = eigen_.eigenvectors() * point_;
    domain_->project(view(next_), x);
  } else {
    solve_general(x);
  }
}

SteinTerms QuadraticLeader::stein_terms() const {
  const Vector inverse = (spectrum_.array() + multiplier_).inverse();
  return oco::stein_terms(view(eigen_.eigenvalues()), view(inverse), view(point_), view(point_),
                          multiplier_ > 0.0);
}

void QuadraticLeader::shrink(double variance, std::span<double> x) const {
  assert(std::ssize(x) == center_.size());
  auto at = as_vector(x);
  const double length = (at - center_).squaredNorm();
  const double noise = variance * spectrum_.cwiseInverse().squaredNorm();
  const double kept = noise < length ? 1.0 - noise / length : 0.0;
  at = center_ + kept * (at - center_);
}

// Nesterov's method, restarted whenever its momentum points uphill (O'Donoghue and Candes,
// "Adaptive restart for accelerated gradient schemes"). A projected step from y to z is within 2
// (largest / smallest) ||y - z|| of the minimiser.
void QuadraticLeader::solve_general(std::span<double> x) {
  const RowMatrix& vectors = eigen_.eigenvectors();
  matrix_.noalias() = vectors * spectrum_.asDiagonal() * vectors.transpose();
  const double steepest = spectrum_.maxCoeff();
  const double flattest = spectrum_.minCoeff();
  const double enough = radius_ * std::max(0.5 * kTolerance * (flattest / steepest), 1e-15);
  auto at = as_vector(x);
  point_ = momentum_ = next_ = at;
  double time = 1.0;
  for (int step = 0; step < kSteps; ++step) {
    next_.noalias() = momentum_ - (matrix_ * momentum_ - linear_) / steepest;
    domain_->project(view(next_), x);
    if ((at - momentum_).norm() <= enough) break;
    if ((momentum_ - at).dot(at - point_) > 0.0) time = 1.0;
    const double later = 0.5 + std::sqrt(0.25 + time * time);
    momentum_ = at + ((time - 1.0) / later) * (at - point_);
    time = later;
    point_ = at;
  }
}

}  // namespace dpoco::oco
