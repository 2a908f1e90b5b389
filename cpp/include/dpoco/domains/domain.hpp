#pragma once

#include "dpoco/core/types.hpp"

namespace dpoco::domains {

// A compact convex set of decisions. Immutable; all methods may run on many threads at once.
// Vectors have dimension() entries; outputs must not overlap inputs.
class Domain {
 public:
  virtual ~Domain() = default;

  Index dimension() const noexcept { return dimension_; }

  // v = argmin over the set of <g, v>; the centre for g = 0. Ties go to the lowest index.
  // Finite for any g, O(dimension), allocation free, same bits on every machine.
  virtual void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept = 0;

  // As `minimize_linear` for vectors that are padded with zeros, for kernels without remainder
  // loops. The padding of v stays zero.
  virtual void minimize_padded(std::span<const double> g, std::span<double> v) const noexcept {
    const auto d = static_cast<std::size_t>(dimension_);
    minimize_linear(g.first(d), v.first(d));
  }

  // The Euclidean projection of x; the centre if x is not finite. O(dimension log dimension).
  virtual void project(std::span<const double> x, std::span<double> out) const = 0;

  // Membership up to `tolerance` relative to the size of the set; false for a non-finite x.
  virtual bool contains(std::span<const double> x, double tolerance) const noexcept = 0;

  virtual void center(std::span<double> out) const = 0;

  // The largest ||x - y||_order and ||x||_order of points of the set, for order in [1, inf]. Stated
  // bounds are checked against these values, which are therefore never too large. They are exact
  // except for a polytope and a long list of vertices, where a search finds the points.
  virtual double diameter(double order) const = 0;
  virtual double max_norm(double order) const = 0;

 protected:
  explicit Domain(Index dimension);
  Domain(const Domain&) = default;
  Domain& operator=(const Domain&) = default;

 private:
  Index dimension_;
};

// {x : ||x||_p <= radius}, p in [1, inf]; p within 1e-12 of 1 is 1, p >= 1e12 is inf.
class LpBall final : public Domain {
 public:
  LpBall(Index dimension, double p, double radius);

  double p() const noexcept { return p_; }
  double radius() const noexcept { return radius_; }

  void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept override {
    minimize_padded(g, v);
  }
  void minimize_padded(std::span<const double> g, std::span<double> v) const noexcept override;
  void project(std::span<const double> x, std::span<double> out) const override;
  bool contains(std::span<const double> x, double tolerance) const noexcept override;
  void center(std::span<double> out) const override;
  double diameter(double order) const override;
  double max_norm(double order) const override;

 private:
  void minimize_one(std::span<const double> g, std::span<double> v) const noexcept;
  void minimize_two(std::span<const double> g, std::span<double> v) const noexcept;
  void minimize_general(std::span<const double> g, std::span<double> v) const noexcept;

  enum class Kind : std::uint8_t { one, two, infinity, general };
  double p_;
  double radius_;
  Kind kind_;
};

// {x : lower <= x <= upper}, coordinate by coordinate.
class Box final : public Domain {
 public:
  Box(Vector lower, Vector upper);

  const Vector& lower() const noexcept { return lower_; }
  const Vector& upper() const noexcept { return upper_; }

  void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept override;
  void project(std::span<const double> x, std::span<double> out) const override;
  bool contains(std::span<const double> x, double tolerance) const noexcept override;
  void center(std::span<double> out) const override;
  double diameter(double order) const override;
  double max_norm(double order) const override;

 private:
  Vector lower_;
  Vector upper_;
  Vector middle_;
};

// {x >= 0 : sum x = scale}.
class Simplex final : public Domain {
 public:
  Simplex(Index dimension, double scale);

  double scale() const noexcept { return scale_; }

  void minimize_linear(std::span<const double> g, std::span<double> v) const noexcept override;
  void project(std::span<const double> x, std::span<double> out) const override;
  bool contains(std::span<const double> x, double tolerance) const noexcept override;
  void center(std::span<double> out) const override;
  double diameter(double order) const override;
  double max_norm(double order) const override;

 private:
  double scale_;
};

}  // namespace dpoco::domains
