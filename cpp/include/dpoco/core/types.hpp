#pragma once

#include <Eigen/Core>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dpoco {

using Index = Eigen::Index;
using Vector = Eigen::VectorXd;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstVectorRef = Eigen::Ref<const Vector>;
using VectorRef = Eigen::Ref<Vector>;
using ConstRowMatrixRef = Eigen::Ref<const RowMatrix>;
using RowMatrixRef = Eigen::Ref<RowMatrix>;

// The entries of a vector, or of a matrix without gaps, as a span.
template <class Dense>
auto view(Dense&& entries) noexcept {
  return std::span(entries.data(), static_cast<std::size_t>(entries.size()));
}

// A span as a vector, or row by row as a matrix with n columns and rows.
inline Eigen::Map<const Vector> as_vector(std::span<const double> x) noexcept {
  return {x.data(), std::ssize(x)};
}
inline Eigen::Map<Vector> as_vector(std::span<double> x) noexcept {
  return {x.data(), std::ssize(x)};
}
inline Eigen::Map<const RowMatrix> as_matrix(std::span<const double> x, Index n) noexcept {
  assert(std::ssize(x) == n * n);
  return {x.data(), n, n};
}
inline Eigen::Map<RowMatrix> as_matrix(std::span<double> x, Index n) noexcept {
  assert(std::ssize(x) == n * n);
  return {x.data(), n, n};
}

}  // namespace dpoco
