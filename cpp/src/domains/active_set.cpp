#include "active_set.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

std::size_t to_size(Index n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

void ActiveSet::reset(Index n) {
  n_ = n;
  q_.assign(to_size(n * n), 0.0);
  for (Index i = 0; i < n; ++i) q(i)[i] = 1.0;
  r_.resize(to_size(n * n));
  reflector_.resize(to_size(n));
  sum_.resize(to_size(n));
  rows_.reserve(to_size(n));
  rows_.clear();
}

void ActiveSet::rotate(std::span<const double> v, std::span<double> out) const noexcept {
  const auto dot = simd::kernels().dot;
  assert(std::ssize(v) == n_ && std::ssize(out) == n_);
  for (Index i = 0; i < n_; ++i) out[i] = dot(q(i), v.data(), to_size(n_));
}

void ActiveSet::combine(std::span<const double> coefficients, Index begin, Index end,
                        std::span<double> out) const noexcept {
  const auto axpy = simd::kernels().axpy;
  assert(std::ssize(coefficients) >= end && std::ssize(out) == n_);
  std::ranges::fill(out, 0.0);
  for (Index i = begin; i < end; ++i) {
    if (coefficients[i] != 0.0) axpy(coefficients[i], q(i), to_size(n_), out.data());
  }
}

// One reflection turns the part of the row that is orthogonal to the others into the next column of
// Q.
void ActiveSet::add(Index row, std::span<const double> rotated) {
  const auto& kernel = simd::kernels();
  const Index k = size();
  const Index rest = n_ - k;
  assert(std::ssize(rotated) == n_);
  std::copy_n(rotated.begin(), k, column(k));
  double* v = reflector_.data();
  std::copy(rotated.begin() + k, rotated.end(), v);
  double along = v[0];
  if (rest > 1) {
    const double length = std::sqrt(kernel.dot(v, v, to_size(rest)));
    along = v[0] > 0.0 ? -length : length;  // the sign that does not cancel below
    v[0] -= along;
    const double scale = -1.0 / (along * v[0]);  // 2 / ||v||^2
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (Index i = 0; i < rest; ++i) {
      if (v[i] != 0.0) kernel.axpy(v[i], q(k + i), to_size(n_), sum_.data());
    }
    for (Index i = 0; i < rest; ++i) {
      if (v[i] != 0.0) kernel.axpy(-scale * v[i], sum_.data(), to_size(n_), q(k + i));
    }
  }
  column(k)[k] = along;
  rows_.push_back(row);
}

// Each column behind the removed one has one entry below the diagonal; a rotation removes it.
void ActiveSet::remove(Index position) noexcept {
  const Index last = size() - 1;
  for (Index j = position; j < last; ++j) {
    const double* from = column(j + 1);
    std::copy(from, from + j + 2, column(j));
  }
  rows_.erase(rows_.begin() + position);
  for (Index i = position; i < last; ++i) {
    const double x = column(i)[i];
    const double y = column(i)[i + 1];
    const double length = std::sqrt(x * x + y * y);
    if (!(length > 0.0)) continue;
    const double c = x / length;
    const double s = y / length;
    column(i)[i] = length;
    for (Index j = i + 1; j < last; ++j) {
      double* entry = column(j) + i;
      const double upper = entry[0];
      entry[0] = c * upper + s * entry[1];
      entry[1] = c * entry[1] - s * upper;
    }
    double* first = q(i);
    double* second = q(i + 1);
    for (Index j = 0; j < n_; ++j) {
      const double own = first[j];
      first[j] = c * own + s * second[j];
      second[j] = c * second[j] - s * own;
    }
  }
}

void ActiveSet::solve(std::span<double> x) const noexcept {
  const auto axpy = simd::kernels().axpy;
  assert(std::ssize(x) == size());
  for (Index j = size(); j-- > 0;) {
    x[j] /= column(j)[j];
    axpy(-x[j], column(j), to_size(j), x.data());
  }
}

void ActiveSet::solve_transposed(std::span<double> x) const noexcept {
  const auto dot = simd::kernels().dot;
  assert(std::ssize(x) == size());
  for (Index j = 0; j < size(); ++j) {
    x[j] = (x[j] - dot(column(j), x.data(), to_size(j))) / column(j)[j];
  }
}

}  // namespace dpoco::domains
