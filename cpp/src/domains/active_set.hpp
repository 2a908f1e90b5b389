#pragma once

#include <span>
#include <vector>

#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// Independent rows a_1..a_k of length n, as an orthogonal factorisation [a_1 .. a_k] = Q [R; 0]
// that is updated when a row enters or leaves. Every product uses the vector kernels, so results
// have the same bits on every machine.
class ActiveSet {
 public:
  void reset(Index n);  // no row; Q is the identity

  Index size() const noexcept { return static_cast<Index>(rows_.size()); }
  Index row(Index position) const noexcept { return rows_[static_cast<std::size_t>(position)]; }

  // out = Q' v, n values: the first size() along the rows, the others across them. O(n^2).
  void rotate(std::span<const double> v, std::span<double> out) const noexcept;
  // out = sum of coefficients[i] q_i over begin <= i < end. O(n (end - begin)).
  void combine(std::span<const double> coefficients, Index begin, Index end,
               std::span<double> out) const noexcept;
  // `rotated` is Q' a of a row that does not depend on the others. O(n^2).
  void add(Index row, std::span<const double> rotated);
  void remove(Index position) noexcept;  // O(n^2)

  void solve(std::span<double> x) const noexcept;             // R^-1 x in place
  void solve_transposed(std::span<double> x) const noexcept;  // R^-T x in place

 private:
  // Columns of Q and of R, of which position + 1 entries are used; kernels take parts of them.
  double* q(Index i) noexcept { return q_.data() + i * n_; }
  const double* q(Index i) const noexcept { return q_.data() + i * n_; }
  double* column(Index position) noexcept { return r_.data() + position * n_; }
  const double* column(Index position) const noexcept { return r_.data() + position * n_; }

  Index n_ = 0;
  std::vector<double> q_;  // column i of Q at i n
  std::vector<double> r_;
  std::vector<double> reflector_;
  std::vector<double> sum_;
  std::vector<Index> rows_;
};

}  // namespace dpoco::domains
