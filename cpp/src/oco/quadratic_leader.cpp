#include "dpoco/oco/quadratic_leader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Jacobi's method converges quadratically: six to ten sweeps. The bound is for termination only.
constexpr int kSweeps = 64;
// Enough for a condition number of 10^5 from a cold start; a stream's next minimiser is near.
constexpr int kSteps = 10'000;
constexpr double kTolerance = 1e-13;

double euclidean_radius(const domains::Domain& domain) {
  const auto* ball = dynamic_cast<const domains::LpBall*>(&domain);
  return ball != nullptr && ball->p() == 2.0 ? ball->radius() : 0.0;
}

double length(const std::vector<double>& x) {
  return std::sqrt(simd::kernels().dot(x.data(), x.data(), x.size()));
}

}  // namespace

QuadraticLeader::QuadraticLeader(std::shared_ptr<const domains::Domain> domain, double weight,
                                 double step, double radius)
    : domain_(std::move(domain)),
      ball_radius_(euclidean_radius(*domain_)),
      weight_(weight),
      step_(step),
      radius_(radius),
      size_(static_cast<std::size_t>(domain_->dimension())),
      center_(size_),
      matrix_(size_ * size_),
      vectors_(size_ * size_),
      linear_(size_),
      spectrum_(size_),
      point_(size_),
      momentum_(size_),
      slope_(size_),
      next_(size_) {
  if (!(weight > 0.0) || !(step > 0.0) || !(radius >= 0.0)) {
    throw std::invalid_argument("weight, step and radius must be positive");
  }
  domain_->center(center_.data());
}

void QuadraticLeader::minimize(const double* packed, double vector_scale, double* x) {
  unpack(packed, vector_scale);
  diagonalize();
  if (ball_radius_ > 0.0) {
    solve_ball(ball_radius_, x);
  } else {
    solve_general(x);
  }
}

void QuadraticLeader::unpack(const double* packed, double vector_scale) {
  const std::size_t n = size_;
  for (std::size_t i = 0; i < n; ++i) {
    matrix_[i * n + i] = *packed++;
    for (std::size_t j = i + 1; j < n; ++j) {
      matrix_[i * n + j] = matrix_[j * n + i] = *packed++ * kSqrtHalf;
    }
  }
  for (std::size_t i = 0; i < n; ++i) linear_[i] = 2.0 * weight_ * (packed[i] / vector_scale);
}

// The rotation of rows and columns p and q that makes entry (p, q) zero.
void QuadraticLeader::rotate(std::size_t p, std::size_t q) {
  const std::size_t n = size_;
  double* a = matrix_.data();
  const double off = a[p * n + q];
  const double ratio = (a[q * n + q] - a[p * n + p]) / (2.0 * off);
  // The smaller root of t^2 + 2 ratio t = 1; far beyond 1e8 the square adds nothing.
  const double magnitude = std::fabs(ratio);
  const double root = magnitude < 1e100 ? std::sqrt(ratio * ratio + 1.0) : magnitude;
  const double t = std::copysign(1.0 / (magnitude + root), ratio);
  const double c = 1.0 / std::sqrt(t * t + 1.0);
  const double s = t * c;
  a[p * n + p] -= t * off;
  a[q * n + q] += t * off;
  a[p * n + q] = a[q * n + p] = 0.0;
  double* row_p = a + p * n;
  double* row_q = a + q * n;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == p || i == q) continue;
    const double first = row_p[i];
    const double second = row_q[i];
    a[i * n + p] = row_p[i] = c * first - s * second;
    a[i * n + q] = row_q[i] = s * first + c * second;
  }
  double* vector_p = vectors_.data() + p * n;
  double* vector_q = vectors_.data() + q * n;
  for (std::size_t i = 0; i < n; ++i) {
    const double first = vector_p[i];
    const double second = vector_q[i];
    vector_p[i] = c * first - s * second;
    vector_q[i] = s * first + c * second;
  }
}

void QuadraticLeader::diagonalize() {
  const std::size_t n = size_;
  std::fill(vectors_.begin(), vectors_.end(), 0.0);
  for (std::size_t i = 0; i < n; ++i) vectors_[i * n + i] = 1.0;
  double largest = 0.0;
  for (const double entry : matrix_) largest = std::max(largest, std::fabs(entry));
  // Entries this small move no eigenvalue by more than rounding does.
  const double negligible = 0.125 * kEpsilon * largest / static_cast<double>(n);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool done = true;
    for (std::size_t p = 0; p + 1 < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (!(std::fabs(matrix_[p * n + q]) > negligible)) continue;
        rotate(p, q);
        done = false;
      }
    }
    if (done) break;
  }
  for (std::size_t i = 0; i < n; ++i) {
    spectrum_[i] = 2.0 * weight_ * std::max(0.0, matrix_[i * n + i]) + 1.0 / step_;
  }
}

// In the eigenbasis x_i = h_i / (H_i + nu), nu >= 0 with ||x|| = radius unless nu = 0 does.
// Newton's method on 1/||x|| - 1/radius increases monotonically to the root (Conn, Gould and Toint,
// "Trust Region Methods", Section 7.3).
void QuadraticLeader::solve_ball(double radius, double* x) {
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = size_;
  for (std::size_t i = 0; i < n; ++i) {
    slope_[i] = k.dot(vectors_.data() + i * n, linear_.data(), n);
  }
  double shift = 0.0;
  constexpr int kNewtonSteps = 100;
  for (int step = 0; step < kNewtonSteps; ++step) {
    for (std::size_t i = 0; i < n; ++i) point_[i] = slope_[i] / (spectrum_[i] + shift);
    const double norm = length(point_);
    if (norm <= radius) break;
    double change = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const double part = point_[i] / norm;
      change += part * part / (spectrum_[i] + shift);
    }
    const double next = shift + ((norm - radius) / radius) / change;
    if (!(next > shift)) break;
    shift = next;
  }
  std::fill(next_.begin(), next_.end(), 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    k.axpy(point_[i], vectors_.data() + i * n, n, next_.data());
  }
  domain_->project(next_.data(), x);
}

void QuadraticLeader::gradient(const double* x, double* out) const {
  const simd::Kernels& k = simd::kernels();
  for (std::size_t i = 0; i < size_; ++i) {
    out[i] = k.dot(matrix_.data() + i * size_, x, size_) - linear_[i] - center_[i] / step_;
  }
}

// Nesterov's method for strongly convex functions with both constants known. A projected step from
// y to z is within 2 (largest / smallest) ||y - z|| of the minimiser.
void QuadraticLeader::solve_general(double* x) {
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = size_;
  std::fill(matrix_.begin(), matrix_.end(), 0.0);
  for (std::size_t e = 0; e < n; ++e) {
    const double* vector = vectors_.data() + e * n;
    for (std::size_t i = 0; i < n; ++i) {
      k.axpy(spectrum_[e] * vector[i], vector, n, matrix_.data() + i * n);
    }
  }
  const auto [low, high] = std::minmax_element(spectrum_.begin(), spectrum_.end());
  const double share = std::sqrt(*low / *high);
  const double weight = (1.0 - share) / (1.0 + share);
  const double enough = radius_ * std::max(0.5 * kTolerance * share * share, 1e-15);
  std::copy(x, x + n, point_.data());
  momentum_ = point_;
  for (int step = 0; step < kSteps; ++step) {
    gradient(momentum_.data(), slope_.data());
    for (std::size_t i = 0; i < n; ++i) slope_[i] = momentum_[i] - slope_[i] / *high;
    domain_->project(slope_.data(), next_.data());
    for (std::size_t i = 0; i < n; ++i) slope_[i] = next_[i] - momentum_[i];
    const bool near = length(slope_) <= enough;
    for (std::size_t i = 0; i < n; ++i) {
      momentum_[i] = next_[i] + weight * (next_[i] - point_[i]);
    }
    point_.swap(next_);
    if (near) break;
  }
  std::copy(point_.begin(), point_.end(), x);
}

}  // namespace dpoco::oco
