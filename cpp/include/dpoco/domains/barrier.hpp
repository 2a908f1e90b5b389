#pragma once

#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// A smooth convex function on the interior of a convex set, 0 at its centre, >= 0 elsewhere and
// infinite at the boundary. It keeps the point of a second-order solver interior; privacy never
// depends on it. Unweighted: the caller multiplies it by a weight. Immutable, thread safe.
class Barrier {
 public:
  virtual ~Barrier() = default;

  Index dimension() const noexcept { return center_.size(); }
  const Vector& center() const noexcept { return center_; }

  // Supremum over the interior of the squared Newton decrement <g, H^-1 g> (nu). All barriers here
  // are self-concordant with this parameter, except that of an l_p ball with p > 2.
  virtual double parameter() const noexcept = 0;

  // Infinity outside the interior, or if x is not finite. gradient and hessian need an interior x.
  virtual double value(const ConstVectorRef& x) const = 0;
  virtual void gradient(const ConstVectorRef& x, VectorRef out) const = 0;
  virtual void hessian(const ConstVectorRef& x, RowMatrixRef out) const = 0;

  // Largest t >= 0 with x + t step in the closed set, for an interior x; infinity for step = 0.
  virtual double distance(const ConstVectorRef& x, const ConstVectorRef& step) const = 0;

  // Upper bound of value over the set shrunk toward its centre by 1 - 1/horizon; horizons below 3
  // count as 3. O(1).
  virtual double shrunk_supremum(double horizon) const noexcept = 0;

 protected:
  explicit Barrier(Vector center);
  Barrier(const Barrier&) = default;
  Barrier& operator=(const Barrier&) = default;

 private:
  Vector center_;
};

// -log(1 - ||(x - c)/R||_p^p) for 2 <= p < inf; p in [1, 2) is not twice differentiable.
class BallBarrier final : public Barrier {
 public:
  BallBarrier(Vector center, double p, double radius);

  double parameter() const noexcept override { return 1.0; }
  double value(const ConstVectorRef& x) const override;
  void gradient(const ConstVectorRef& x, VectorRef out) const override;
  void hessian(const ConstVectorRef& x, RowMatrixRef out) const override;
  double distance(const ConstVectorRef& x, const ConstVectorRef& step) const override;
  double shrunk_supremum(double horizon) const noexcept override;

 private:
  double power_sum(const ConstVectorRef& x) const;

  double p_;
  double radius_;
};

// -sum_i log(1 - ((x_i - c_i)/h_i)^2) with half widths h_i > 0.
class BoxBarrier final : public Barrier {
 public:
  BoxBarrier(const Vector& lower, const Vector& upper);

  double parameter() const noexcept override { return static_cast<double>(dimension()); }
  double value(const ConstVectorRef& x) const override;
  void gradient(const ConstVectorRef& x, VectorRef out) const override;
  void hessian(const ConstVectorRef& x, RowMatrixRef out) const override;
  double distance(const ConstVectorRef& x, const ConstVectorRef& step) const override;
  double shrunk_supremum(double horizon) const noexcept override;

 private:
  Vector half_width_;
};

// -sum_j log(slack_j(x) / slack_j(c)) for {x : A x <= k} with c its analytic centre, where the sum
// has its minimum. The caller must pass rows that bound the set and leave it an interior.
class PolytopeBarrier final : public Barrier {
 public:
  // Throws std::invalid_argument unless `center` is interior and analytic:
  // ||sum_j a_j / slack_j(center)|| <= 1e-6 sum_j ||a_j|| / slack_j(center).
  PolytopeBarrier(RowMatrix rows, Vector bounds, Vector center);

  // {x >= 0, sum x <= scale} in R^dimension: the probability simplex in its free coordinates.
  static PolytopeBarrier simplex(Index dimension, double scale);

  double parameter() const noexcept override { return static_cast<double>(rows_.rows()); }
  double value(const ConstVectorRef& x) const override;
  void gradient(const ConstVectorRef& x, VectorRef out) const override;
  void hessian(const ConstVectorRef& x, RowMatrixRef out) const override;
  double distance(const ConstVectorRef& x, const ConstVectorRef& step) const override;
  double shrunk_supremum(double horizon) const noexcept override;

 private:
  RowMatrix rows_;
  Vector bounds_;
  Vector slack_at_center_;
};

}  // namespace dpoco::domains
