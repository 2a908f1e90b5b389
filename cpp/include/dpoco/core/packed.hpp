#pragma once

#include <cstddef>

#include "dpoco/core/types.hpp"

namespace dpoco {

// Symmetric matrices stored as their upper triangles, row by row, with off-diagonal entries times
// sqrt(2): the Euclidean norm of the stored vector is the Frobenius norm of the matrix.

inline constexpr double kSqrtTwo = 1.41421356237309504880;
inline constexpr double kSqrtHalf = 0.70710678118654752440;

// Number of entries of a matrix of order n.
constexpr std::size_t packed_size(std::size_t n) noexcept { return n * (n + 1) / 2; }

// Calls add(entry) with the entries of x x', and then with those of vector_scale y x, in their
// order. x: clipped features. Only clipped entries are multiplied: a product of bounds would lose
// its precision if the clipping factor is tiny.
template <class Add>
void add_quadratic(std::span<const double> x, double y, double vector_scale, Add add) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    add(x[i] * x[i]);
    const double factor = kSqrtTwo * x[i];
    for (std::size_t j = i + 1; j < n; ++j) add(factor * x[j]);
  }
  const double factor = vector_scale * y;
  for (std::size_t i = 0; i < n; ++i) add(factor * x[i]);
}

// Reads a square matrix and returns the rest of the span.
template <class Matrix>
std::span<const double> unpack(std::span<const double> packed, Matrix& matrix) {
  assert(packed.size() >= packed_size(static_cast<std::size_t>(matrix.rows())));
  std::size_t at = 0;
  for (Index i = 0; i < matrix.rows(); ++i) {
    matrix(i, i) = packed[at++];
    for (Index j = i + 1; j < matrix.rows(); ++j) {
      matrix(i, j) = matrix(j, i) = packed[at++] * kSqrtHalf;
    }
  }
  return packed.subspan(at);
}

}  // namespace dpoco
