#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "dpoco/core/double_double.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {

using simd::dot;

inline DoubleDouble dot(std::span<const DoubleDouble> a, std::span<const DoubleDouble> b) {
  DoubleDouble sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum = sum + a[i] * b[i];
  return sum;
}

template <class Real>
inline constexpr double kUnitRounding = std::numeric_limits<double>::epsilon();
template <>
inline constexpr double kUnitRounding<DoubleDouble> = 0x1p-102;

// The shortest point in the convex hull of n points (Wolfe, "Finding the nearest point in a
// polytope", 1976). `corral` has affinely independent points, and the shortest point is their
// combination by `weights`.
template <class Real>
class NearestPoint {
 public:
  using Corral = std::vector<std::size_t>;
  using Reals = std::vector<Real>;

  // `points`: n rows of d entries.
  NearestPoint(Reals points, std::size_t dimension)
      : points_(std::move(points)), d_(dimension), count_(points_.size() / dimension) {
    Real largest(0.0);
    Real least(std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < count_; ++i) {
      const Real square = dot(row(i), row(i));
      if (largest < square) largest = square;
      if (square < least) {
        least = square;
        corral_.assign(1, i);
      }
    }
    largest_square_ = largest;
    weights_.assign(1, Real(1.0));
    update();
  }

  // Continues from the result of another precision. The weights must be positive.
  void resume(Corral corral, Reals weights) {
    corral_ = std::move(corral);
    weights_ = std::move(weights);
    normalize();
    shrink();
  }

  void find() {
    const Real rounding(16.0 * kUnitRounding<Real> * kUnitRounding<Real>);
    const std::size_t most = 50 * (count_ + d_) + 100;
    for (std::size_t step = 0; step < most; ++step) {
      const Real square = dot(point_, point_);
      // The length or the slope is 0 up to rounding.
      if (square <= rounding * largest_square_) break;
      std::size_t best = 0;
      Real least(std::numeric_limits<double>::infinity());
      for (std::size_t i = 0; i < count_; ++i) {
        const Real price = dot(row(i), point_);
        if (price < least) {
          least = price;
          best = i;
        }
      }
      const Real gap = square - least;
      if (gap <= Real(0.0) || gap * gap <= rounding * largest_square_ * square) break;
      if (std::find(corral_.begin(), corral_.end(), best) != corral_.end()) break;
      const Corral corral = corral_;
      const Reals weights = weights_;
      corral_.push_back(best);
      weights_.push_back(Real(0.0));
      shrink();
      if (!(dot(point_, point_) < square)) {  // rounding allows no further descent
        corral_ = corral;
        weights_ = weights;
        update();
        break;
      }
    }
  }

  const Corral& corral() const noexcept { return corral_; }
  const Reals& weights() const noexcept { return weights_; }

 private:
  std::span<const Real> row(std::size_t i) const { return {points_.data() + i * d_, d_}; }

  void update() {
    point_.assign(d_, Real(0.0));
    for (std::size_t i = 0; i < corral_.size(); ++i) {
      const std::span<const Real> at = row(corral_[i]);
      for (std::size_t j = 0; j < d_; ++j) point_[j] = point_[j] + weights_[i] * at[j];
    }
  }

  void normalize() {
    Real sum(0.0);
    for (const Real& w : weights_) sum = sum + w;
    for (Real& w : weights_) w = w / sum;
  }

  // The weights, with sum 1 and any signs, of the shortest point in the corral's affine hull: least
  // squares by the modified Gram-Schmidt method, which is stable if the right-hand side is the last
  // column. An edge in the span of earlier edges gets no weight.
  Reals affine_weights() const {
    const std::size_t edges = corral_.size() - 1;
    const std::span<const Real> origin = row(corral_[0]);
    std::vector<Reals> q(edges, Reals(d_));
    std::vector<Reals> r(edges, Reals(edges + 1, Real(0.0)));
    Reals right(d_);
    for (std::size_t j = 0; j < d_; ++j) right[j] = Real(0.0) - origin[j];
    Reals squares(edges, Real(0.0));
    for (std::size_t i = 0; i < edges; ++i) {
      const std::span<const Real> at = row(corral_[i + 1]);
      for (std::size_t j = 0; j < d_; ++j) q[i][j] = at[j] - origin[j];
      const Real whole = dot(q[i], q[i]);
      for (std::size_t k = 0; k < i; ++k) r[k][i] = remove(q[k], squares[k], q[i]);
      squares[i] = dot(q[i], q[i]);
      const Real least(256.0 * kUnitRounding<Real> * kUnitRounding<Real>);
      if (squares[i] <= least * whole) squares[i] = Real(0.0);
    }
    for (std::size_t k = 0; k < edges; ++k) r[k][edges] = remove(q[k], squares[k], right);
    Reals result(edges + 1, Real(0.0));
    Real first(1.0);
    for (std::size_t k = edges; k-- > 0;) {
      Real value = r[k][edges];
      for (std::size_t i = k + 1; i < edges; ++i) value = value - r[k][i] * result[i + 1];
      result[k + 1] = Real(0.0) < squares[k] ? value : Real(0.0);
      first = first - result[k + 1];
    }
    result[0] = first;
    return result;
  }

  // x -= c q with the c that makes it orthogonal to q; returns c.
  Real remove(const Reals& q, const Real& square, Reals& x) const {
    if (!(Real(0.0) < square)) return Real(0.0);
    const Real c = dot(q, x) / square;
    for (std::size_t j = 0; j < d_; ++j) x[j] = x[j] - c * q[j];
    return c;
  }

  // Moves to the affine minimum. Drops the rows whose weights would become negative on the way.
  void shrink() {
    while (true) {
      const Reals target = affine_weights();
      const auto least = std::min_element(target.begin(), target.end());
      if (Real(0.0) < *least) {
        weights_ = target;
        break;
      }
      Real reach(1.0);
      std::size_t leaving = static_cast<std::size_t>(least - target.begin());
      for (std::size_t i = 0; i < target.size(); ++i) {
        const Real drop = weights_[i] - target[i];
        if (target[i] <= Real(0.0) && weights_[i] <= reach * drop) {
          reach = Real(0.0) < drop ? weights_[i] / drop : Real(0.0);
          leaving = i;
        }
      }
      Corral kept;
      Reals left;
      for (std::size_t i = 0; i < target.size(); ++i) {
        const Real moved = weights_[i] + reach * (target[i] - weights_[i]);
        if (i == leaving || !(Real(0.0) < moved)) continue;
        left.push_back(moved);
        kept.push_back(corral_[i]);
      }
      corral_ = std::move(kept);
      weights_ = std::move(left);
      normalize();
    }
    update();
  }

  Reals points_;
  std::size_t d_;
  std::size_t count_;
  Real largest_square_;
  Corral corral_;
  Reals weights_;
  Reals point_;
};

}  // namespace dpoco::domains
