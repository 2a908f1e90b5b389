#include "dpoco/domains/body.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/polytope.hpp"
#include "dpoco/domains/projections.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double length(std::span<const double> x) { return norm(x, 2.0); }

}  // namespace

Body::Body(std::shared_ptr<const Domain> domain, Kind kind)
    : domain_(std::move(domain)),
      kind_(kind),
      dimension_(domain_->dimension()),
      radius_(kInfinity),
      centre_(dimension_) {
  domain_->center(view(centre_));
}

Body Body::of(std::shared_ptr<const Domain> domain, bool unbounded) {
  if (!domain) throw std::invalid_argument("domain is required");
  if (unbounded) return {std::move(domain), Kind::space};
  if (const auto* ball = dynamic_cast<const LpBall*>(domain.get())) {
    const double p = ball->p();
    const double radius = ball->radius();
    const Index d = ball->dimension();
    const auto size = static_cast<double>(d);
    if (p == 2.0 && d > 1) {
      Body body(std::move(domain), Kind::ball);
      body.radius_ = body.extent_ = radius;
      return body;
    }
    if (std::isinf(p) || d == 1) {
      Body body(std::move(domain), Kind::box);
      body.half_widths_ = Vector::Constant(d, radius);
      body.radius_ = radius * std::sqrt(size);
      return body;
    }
    Body body(std::move(domain), Kind::lp_ball);
    body.exponent_ = p;
    body.extent_ = radius;
    body.radius_ = p <= 2.0 ? radius : radius * elementary::power(size, 0.5 - 1.0 / p);
    return body;
  }
  if (const auto* box = dynamic_cast<const Box*>(domain.get())) {
    Vector half = 0.5 * box->upper() - 0.5 * box->lower();
    if (!(half.minCoeff() > 0.0)) {
      throw std::invalid_argument("every upper bound must exceed its lower bound");
    }
    Body body(std::move(domain), Kind::box);
    body.radius_ = length(view(half));
    body.half_widths_ = std::move(half);
    return body;
  }
  if (const auto* simplex = dynamic_cast<const Simplex*>(domain.get())) {
    const Index d = simplex->dimension();
    const double scale = simplex->scale();
    if (d < 2) throw std::invalid_argument("a simplex of dimension 1 holds a single decision");
    Body body(std::move(domain), Kind::polytope);
    body.simplex_ = true;
    body.dimension_ = d - 1;
    body.extent_ = scale;
    body.radius_ = scale * std::sqrt(1.0 - 1.0 / static_cast<double>(d));
    // x = centre + Q u >= 0
    body.rows_ = RowMatrix::Zero(d, d - 1);
    Vector unit = Vector::Zero(d);
    for (Index j = 0; j + 1 < d; ++j) {
      unit.setZero();
      unit[j] = 1.0;
      body.reflect(view(unit));
      body.rows_.col(j) = -unit;
    }
    body.bounds_ = body.centre_;
    return body;
  }
  if (const auto* polytope = dynamic_cast<const Polytope*>(domain.get())) {
    Body body(std::move(domain), Kind::polytope);
    body.radius_ = body.extent_ = polytope->radius();
    body.rows_ = polytope->rows();
    body.bounds_ = polytope->slack();
    return body;
  }
  throw std::invalid_argument("this kind of domain has no interior coordinates");
}

// The reflection that swaps the diagonal direction 1/sqrt(d) and the last unit vector: its first
// d - 1 columns are an orthonormal basis of the vectors with sum zero.
void Body::reflect(std::span<double> x) const noexcept {
  const Index d = ambient();
  const double diagonal = 1.0 / std::sqrt(static_cast<double>(d));
  double sum = 0.0;
  for (Index i = 0; i < d; ++i) sum += x[i];
  // h = diagonal * 1 - e_d, ||h||^2 = 2 - 2 diagonal
  const double factor = (diagonal * sum - x[d - 1]) / (1.0 - diagonal);
  for (Index i = 0; i < d; ++i) x[i] -= factor * diagonal;
  x[d - 1] += factor;
}

void Body::embed(std::span<const double> u, std::span<double> x) const noexcept {
  const Index d = ambient();
  assert(std::ssize(u) == dimension_ && std::ssize(x) == d);
  std::ranges::copy(u, x.begin());
  if (simplex_) {
    x.back() = 0.0;
    reflect(x);
  }
  for (Index i = 0; i < d; ++i) x[i] += centre_[i];
}

void Body::coordinates(std::span<const double> x, std::span<double> u) const noexcept {
  assert(std::ssize(x) == ambient() && std::ssize(u) == dimension_);
  if (!simplex_) {
    for (Index i = 0; i < dimension_; ++i) u[i] = x[i] - centre_[i];
    return;
  }
  pull_back(x, u);  // Q' centre = 0
}

double Body::pull_back(std::span<const double> v, std::span<double> w) const noexcept {
  const Index d = ambient();
  assert(std::ssize(v) == d && std::ssize(w) == dimension_);
  double offset = 0.0;
  for (Index i = 0; i < d; ++i) offset += v[i] * centre_[i];
  if (!simplex_) {
    std::ranges::copy(v, w.begin());
    return offset;
  }
  const double diagonal = 1.0 / std::sqrt(static_cast<double>(d));
  double sum = 0.0;
  for (Index i = 0; i < d; ++i) sum += v[i];
  const double shift = diagonal * (diagonal * sum - v[d - 1]) / (1.0 - diagonal);
  for (Index i = 0; i + 1 < d; ++i) w[i] = v[i] - shift;
  return offset;
}

void Body::pull_back_matrix(std::span<const double> a, std::span<double> m) const {
  const Index d = ambient();
  const Index n = dimension_;
  assert(std::ssize(a) == d * d && std::ssize(m) == n * n);
  if (!simplex_) {
    std::ranges::copy(a, m.begin());
    return;
  }
  // First each row, then all columns at once.
  RowMatrix half(d, n);
  for (Index i = 0; i < d; ++i) {
    pull_back(a.subspan(static_cast<std::size_t>(i * d), static_cast<std::size_t>(d)),
              view(half.row(i)));
  }
  const double diagonal = 1.0 / std::sqrt(static_cast<double>(d));
  Vector shift = Vector::Zero(n);
  for (Index i = 0; i < d; ++i) shift += half.row(i);
  shift = diagonal * (diagonal * shift - half.row(d - 1).transpose()) / (1.0 - diagonal);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) m[i * n + j] = half(i, j) - shift[j];
  }
}

bool Body::contains(std::span<const double> u, double tolerance) const noexcept {
  assert(std::ssize(u) == dimension_);
  if (!std::ranges::all_of(u, [](double x) { return std::isfinite(x); })) return false;
  switch (kind_) {
    case Kind::space:
      return true;
    case Kind::ball:
      return length(u) <= radius_ * (1.0 + tolerance);
    case Kind::lp_ball:
      return norm(u, exponent_) <= extent_ * (1.0 + tolerance);
    case Kind::box:
      for (Index i = 0; i < dimension_; ++i) {
        if (std::fabs(u[i]) > half_widths_[i] * (1.0 + tolerance)) return false;
      }
      return true;
    case Kind::polytope:
      break;
  }
  for (Index j = 0; j < rows_.rows(); ++j) {
    double sum = 0.0;
    for (Index i = 0; i < dimension_; ++i) sum += rows_(j, i) * u[i];
    if (sum > bounds_[j] * (1.0 + tolerance)) return false;
  }
  return true;
}

void Body::chord(std::span<const double> u, std::span<const double> step, double& low,
                 double& high) const {
  low = -kInfinity;
  high = kInfinity;
  const Index n = dimension_;
  assert(std::ssize(u) == n && std::ssize(step) == n);
  // Cuts the line at the point where slope * t reaches room >= 0.
  const auto cut = [&](double slope, double room) {
    if (slope > 0.0) {
      high = std::min(high, room / slope);
    } else if (slope < 0.0) {
      low = std::max(low, room / slope);
    }
  };
  switch (kind_) {
    case Kind::space:
      return;
    case Kind::box:
      for (Index i = 0; i < n; ++i) {
        cut(step[i], std::max(half_widths_[i] - u[i], 0.0));
        cut(-step[i], std::max(half_widths_[i] + u[i], 0.0));
      }
      return;
    case Kind::ball: {
      double a = 0.0;
      double b = 0.0;
      double c = radius_ * radius_;
      for (Index i = 0; i < n; ++i) {
        a += step[i] * step[i];
        b += u[i] * step[i];
        c -= u[i] * u[i];
      }
      if (!(a > 0.0)) return;
      c = std::max(c, 0.0);
      const double root = std::sqrt(b * b + a * c);
      // For each root, the form that does not cancel.
      if (b > 0.0) {
        high = c / (b + root);
        low = -(b + root) / a;
      } else {
        high = (root - b) / a;
        low = root - b > 0.0 ? -c / (root - b) : 0.0;
      }
      return;
    }
    case Kind::lp_ball: {
      // t -> ||u + t step||_p is convex and at most 1 at 0: bisect where it crosses 1 on each side.
      const double size = norm(step, exponent_);
      if (!(size > 0.0)) return;
      Vector point(n);
      for (const double side : {-1.0, 1.0}) {
        double inside = 0.0;
        double outside = 2.0 * extent_ / size;
        for (int k = 0; k < 100; ++k) {
          const double middle = 0.5 * (inside + outside);
          for (Index i = 0; i < n; ++i) point[i] = u[i] + side * middle * step[i];
          (norm(view(point), exponent_) <= extent_ ? inside : outside) = middle;
        }
        (side < 0.0 ? low : high) = side * inside;
      }
      return;
    }
    case Kind::polytope:
      break;
  }
  for (Index j = 0; j < rows_.rows(); ++j) {
    double slope = 0.0;
    double room = bounds_[j];
    for (Index i = 0; i < n; ++i) {
      slope += rows_(j, i) * step[i];
      room -= rows_(j, i) * u[i];
    }
    cut(slope, std::max(room, 0.0));
  }
}

double Body::support_low(std::span<const double> w) const noexcept {
  const Index n = dimension_;
  assert(std::ssize(w) == n);
  switch (kind_) {
    case Kind::space:
      return -kInfinity;
    case Kind::box: {
      double sum = 0.0;
      for (Index i = 0; i < n; ++i) sum += std::fabs(w[i]) * half_widths_[i];
      return -sum;
    }
    case Kind::lp_ball:
      return -extent_ * norm(w, exponent_ == 1.0 ? kInfinity : exponent_ / (exponent_ - 1.0));
    case Kind::ball:
      break;
    case Kind::polytope: {
      if (simplex_) {
        // Over the vertices centre + Q u = scale e_i: <w, u> = scale (Q w)_i.
        double least = kInfinity;
        for (Index j = 0; j < rows_.rows(); ++j) {
          double sum = 0.0;
          for (Index i = 0; i < n; ++i) sum -= rows_(j, i) * w[i];
          least = std::min(least, sum);
        }
        return extent_ * least;
      }
      // The bound for the box around the polytope.
      const auto& polytope = static_cast<const Polytope&>(*domain_);
      double corner = 0.0;
      for (Index i = 0; i < n; ++i) {
        const double wall = w[i] > 0.0 ? polytope.lower()[i] : polytope.upper()[i];
        corner += w[i] * (wall - centre_[i]);
      }
      return std::max(corner, -radius_ * length(w));
    }
  }
  return -radius_ * length(w);
}

void Body::project(std::span<const double> u, std::span<double> out) const {
  const Index n = dimension_;
  assert(std::ssize(u) == n && std::ssize(out) == n);
  switch (kind_) {
    case Kind::space:
      std::ranges::copy(u, out.begin());
      return;
    case Kind::ball:
      project_l2_ball(u, radius_, out);
      return;
    case Kind::lp_ball:
      if (exponent_ == 1.0) {
        project_l1_ball(u, extent_, out);
      } else {
        project_lp_ball(u, exponent_, extent_, out);
      }
      return;
    case Kind::box:
      for (Index i = 0; i < n; ++i) out[i] = std::clamp(u[i], -half_widths_[i], half_widths_[i]);
      return;
    case Kind::polytope:
      break;
  }
  Vector x(ambient());
  Vector nearest(ambient());
  embed(u, view(x));
  domain_->project(view(x), view(nearest));
  coordinates(view(nearest), out);
}

std::shared_ptr<const Barrier> Body::barrier() const {
  const Vector zero = Vector::Zero(dimension_);
  switch (kind_) {
    case Kind::space:
      return nullptr;
    case Kind::ball:
      return std::make_shared<BallBarrier>(zero, 2.0, radius_);
    case Kind::lp_ball:
      return std::make_shared<BallBarrier>(zero, exponent_, extent_);
    case Kind::box:
      return std::make_shared<BoxBarrier>(-half_widths_, half_widths_);
    case Kind::polytope:
      break;
  }
  return std::make_shared<PolytopeBarrier>(rows_, bounds_, zero);
}

}  // namespace dpoco::domains
