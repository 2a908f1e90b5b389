// Largest distances and norms of the points of a set.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dpoco/domains/body.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/polytope.hpp"
#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::domains {
namespace {

// With at most this many vertices, all pairs are compared.
constexpr Index kMostPaired = 256;
// The number of starting directions of a search, and of its steps from each.
constexpr Index kMostStarts = 32;
constexpr int kMostSteps = 20;

double length(const Vector& x, double order) { return norm(view(x), order); }

// A direction in which |x|_order grows fastest.
Vector slope_of_norm(const Vector& x, double order) {
  const Index n = x.size();
  Vector g = Vector::Zero(n);
  Index top = 0;
  const double largest = x.cwiseAbs().maxCoeff(&top);
  if (!(largest > 0.0)) return g;
  for (Index i = 0; i < n; ++i) {
    const double part = std::fabs(x[i]) / largest;
    const double size = order == 1.0        ? (part > 0.0 ? 1.0 : 0.0)
                        : std::isinf(order) ? (i == top ? 1.0 : 0.0)
                                            : elementary::power(part, order - 1.0);
    g[i] = std::copysign(size, x[i]);
  }
  return g;
}

// Maximises |x|_order over the points ends(g). From several starts, moves to the point ends(slope
// of the norm), until the norm no longer grows.
template <class Ends>
double climb(Index n, double order, Ends ends) {
  double best = 0.0;
  for (Index start = -1; start < std::min(n, kMostStarts); ++start) {
    for (const double sign : {1.0, -1.0}) {
      Vector g =
          start < 0 ? Vector(Vector::Constant(n, sign)) : Vector(sign * Vector::Unit(n, start));
      double reached = -1.0;
      for (int step = 0; step < kMostSteps; ++step) {
        const Vector x = ends(g);
        const double size = length(x, order);
        if (!(size > reached)) break;
        reached = size;
        g = slope_of_norm(x, order);
      }
      best = std::max(best, reached);
    }
  }
  return best;
}

Vector farthest(const Domain& domain, const Vector& g) {
  const Vector against = -g;
  Vector v(domain.dimension());
  domain.minimize_linear(view(against), view(v));
  return v;
}

double climbed_norm(const Domain& domain, double order) {
  return climb(domain.dimension(), order, [&](const Vector& g) { return farthest(domain, g); });
}

double climbed_diameter(const Domain& domain, double order) {
  return climb(domain.dimension(), order, [&](const Vector& g) {
    const Vector back = -g;
    return Vector(farthest(domain, g) - farthest(domain, back));
  });
}

}  // namespace

double LpBall::max_norm(double order) const {
  const double own = kind_ == Kind::one ? 1.0 : kind_ == Kind::infinity ? 0.0 : 1.0 / p_;
  const double gap = (std::isinf(order) ? 0.0 : 1.0 / order) - own;
  return gap > 0.0 ? radius_ * elementary::power(static_cast<double>(dimension()), gap) : radius_;
}

double LpBall::diameter(double order) const { return 2.0 * max_norm(order); }

double Box::max_norm(double order) const {
  return length(lower_.cwiseAbs().cwiseMax(upper_.cwiseAbs()), order);
}

double Box::diameter(double order) const { return length(upper_ - lower_, order); }

double Simplex::max_norm(double) const { return scale_; }

double Simplex::diameter(double order) const {
  if (dimension() == 1) return 0.0;
  return std::isinf(order) ? scale_ : scale_ * elementary::power(2.0, 1.0 / order);
}

double VertexSet::max_norm(double order) const {
  double largest = 0.0;
  for (Index i = 0; i < count(); ++i) {
    largest = std::max(largest, norm(vertex(i), order));
  }
  return largest;
}

double VertexSet::diameter(double order) const {
  Vector gap(dimension());
  // Returns the largest distance from vertex i to the others. `other` becomes the farthest vertex.
  const auto reach = [&](Index i, Index most, Index& other) {
    double largest = 0.0;
    for (Index j = 0; j < most; ++j) {
      gap = vertices_.row(i) - vertices_.row(j);
      const double distance = length(gap, order);
      if (distance > largest) {
        largest = distance;
        other = j;
      }
    }
    return largest;
  };
  double largest = 0.0;
  Index other = 0;
  if (count() <= kMostPaired) {
    for (Index i = 0; i < count(); ++i) largest = std::max(largest, reach(i, i, other));
    return largest;
  }
  // Starts at vertices spread over the list, and moves to the farthest vertex while the distance
  // grows.
  for (Index start = 0; start < kMostStarts; ++start) {
    Index at = start * count() / kMostStarts;
    double reached = -1.0;
    for (int step = 0; step < kMostSteps; ++step) {
      other = at;
      const double distance = reach(at, count(), other);
      if (!(distance > reached)) break;
      reached = distance;
      at = other;
    }
    largest = std::max(largest, reached);
  }
  return largest;
}

double Polytope::max_norm(double order) const { return climbed_norm(*this, order); }

double Polytope::diameter(double order) const { return climbed_diameter(*this, order); }

double Body::max_norm(double order) const {
  return kind_ == Kind::space ? std::numeric_limits<double>::infinity() : domain_->max_norm(order);
}

}  // namespace dpoco::domains
