#include <algorithm>
#include <cassert>
#include <cmath>

#include "dpoco/oco/newton.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

CholeskyFactor::CholeskyFactor(Index n)
    : n_(static_cast<std::size_t>(n)), u_(n_ * n_, 0.0), work_(n_, 0.0) {}

bool CholeskyFactor::compute(std::span<const double> matrix) {
  assert(matrix.size() == u_.size());
  const simd::Kernels& kernel = simd::kernels();
  if (matrix.data() != u_.data()) std::ranges::copy(matrix, u_.begin());
  for (std::size_t k = 0; k < n_; ++k) {
    double* row = u_.data() + k * n_;
    kernel.eliminate(u_.data() + k, n_, k, n_ - k, row + k);
    if (!(row[k] > 0.0) || !std::isfinite(row[k])) return false;
    row[k] = std::sqrt(row[k]);
    kernel.scale(1.0 / row[k], row + k + 1, n_ - k - 1, row + k + 1);
  }
  return true;
}

// One plane rotation per row carries v into the factor.
void CholeskyFactor::update(double scale, std::span<const double> v) {
  assert(v.size() == n_);
  const double root = std::sqrt(scale);
  double* x = work_.data();
  for (std::size_t i = 0; i < n_; ++i) x[i] = root * v[i];
  for (std::size_t k = 0; k < n_; ++k) {
    double* row = u_.data() + k * n_;
    const double r = std::sqrt(row[k] * row[k] + x[k] * x[k]);
    const double c = row[k] / r;
    const double s = x[k] / r;
    row[k] = r;
    for (std::size_t j = k + 1; j < n_; ++j) {
      const double own = row[j];
      row[j] = c * own + s * x[j];
      x[j] = c * x[j] - s * own;
    }
  }
}

double CholeskyFactor::log_determinant() const noexcept {
  double sum = 0.0;
  for (std::size_t k = 0; k < n_; ++k) sum += elementary::log(u_[k * n_ + k]);
  return 2.0 * sum;
}

void CholeskyFactor::whiten(std::span<const double> v, std::span<double> w) const {
  assert(v.size() == n_ && w.size() == n_);
  std::ranges::copy(v, w.begin());
  for (std::size_t k = 0; k < n_; ++k) {
    const double* row = u_.data() + k * n_;
    w[k] /= row[k];
    const double own = w[k];
    for (std::size_t j = k + 1; j < n_; ++j) w[j] -= own * row[j];
  }
}

void CholeskyFactor::solve(std::span<const double> b, std::span<double> x) const {
  const auto dot = simd::kernels().dot;
  whiten(b, x);
  for (std::size_t k = n_; k-- > 0;) {
    const double* row = u_.data() + k * n_;
    x[k] = (x[k] - dot(row + k + 1, x.data() + k + 1, n_ - k - 1)) / row[k];
  }
}

}  // namespace dpoco::oco
