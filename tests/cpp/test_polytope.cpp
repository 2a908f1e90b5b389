#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dpoco/domains/body.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/polytope.hpp"
#include "dpoco/simd/kernels.hpp"

using namespace dpoco;
using namespace dpoco::domains;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Random {
  std::mt19937_64 generator;
  std::normal_distribution<double> gaussian;
  Vector normal(Index n) {
    Vector x(n);
    for (double& value : x) value = gaussian(generator);
    return x;
  }
};

void normalise(RowMatrix& rows, Vector& bounds) {
  for (Index j = 0; j < rows.rows(); ++j) {
    const double length = rows.row(j).norm();
    rows.row(j) /= length;
    bounds[j] /= length;
  }
}

// Around any interior point; the box comes from the set's own linear programs.
std::shared_ptr<Polytope> make(RowMatrix rows, Vector bounds, const Vector& center) {
  normalise(rows, bounds);
  Vector below;
  Vector above;
  Polytope::bounding_box(rows, bounds, center, 1e3, below, above);
  const double radius = below.cwiseMax(above).norm();
  return std::make_shared<Polytope>(rows, bounds, center, center - below, center + above, radius);
}

// [-1, 1]^n cut by random half-spaces at distance 0.3 to 1.3 from 0, moved by `shift`.
std::shared_ptr<Polytope> random_polytope(Index n, Index cuts, unsigned seed, double shift = 0.0) {
  Random random{std::mt19937_64(seed), {}};
  RowMatrix rows(2 * n + cuts, n);
  rows.setZero();
  Vector bounds = Vector::Ones(2 * n + cuts);
  for (Index i = 0; i < n; ++i) {
    rows(2 * i, i) = 1.0;
    rows(2 * i + 1, i) = -1.0;
  }
  for (Index j = 2 * n; j < rows.rows(); ++j) {
    rows.row(j) = random.normal(n).normalized();
    bounds[j] = 0.3 + std::fabs(std::fmod(random.gaussian(random.generator), 1.0));
  }
  const Vector center = Vector::Constant(n, shift);
  return make(rows, bounds + rows * center, center);
}

// {|x_1| + .. + |x_n| <= 1}: 2^(n-1) walls meet in a vertex.
std::shared_ptr<Polytope> cross_polytope(Index n) {
  RowMatrix rows(Index{1} << n, n);
  for (Index j = 0; j < rows.rows(); ++j) {
    for (Index i = 0; i < n; ++i) rows(j, i) = (j >> i) & 1 ? 1.0 : -1.0;
  }
  return make(rows, Vector::Ones(rows.rows()), Vector::Zero(n));
}

Vector minimizer(const Domain& domain, const Vector& g) {
  Vector v(domain.dimension());
  domain.minimize_linear(view(g), view(v));
  return v;
}

Vector projection(const Domain& domain, const Vector& x) {
  Vector v(domain.dimension());
  domain.project(view(x), view(v));
  return v;
}

Vector center_of(const Domain& domain) {
  Vector c(domain.dimension());
  domain.center(view(c));
  return c;
}

}  // namespace

TEST_CASE("a polytope of a box's walls is that box") {
  Random random{std::mt19937_64(1), {}};
  for (const Index n : {1, 2, 5, 17}) {
    RowMatrix rows = RowMatrix::Zero(2 * n, n);
    Vector bounds(2 * n);
    const Vector half = random.normal(n).cwiseAbs() + Vector::Constant(n, 0.1);
    const Vector middle = random.normal(n);
    for (Index i = 0; i < n; ++i) {
      rows(i, i) = 1.0;
      rows(n + i, i) = -1.0;
      bounds[i] = middle[i] + half[i];
      bounds[n + i] = half[i] - middle[i];
    }
    const auto polytope = make(rows, bounds, middle);
    const Box box(middle - half, middle + half);
    CHECK((polytope->lower() - box.lower()).cwiseAbs().maxCoeff() < 1e-10);
    CHECK((polytope->upper() - box.upper()).cwiseAbs().maxCoeff() < 1e-10);
    for (int k = 0; k < 30; ++k) {
      const Vector x = middle + 2.0 * random.normal(n);
      CHECK((projection(*polytope, x) - projection(box, x)).cwiseAbs().maxCoeff() < 1e-14);
      CHECK((minimizer(*polytope, x) - minimizer(box, x)).cwiseAbs().maxCoeff() < 1e-14);
      CHECK(polytope->contains(view(x), 1e-9) == box.contains(view(x), 1e-9));
    }
    Vector far = middle;
    far[0] = 1e300;
    CHECK(projection(*polytope, far)[0] == doctest::Approx(box.upper()[0]));
  }
}

TEST_CASE("projections satisfy the variational inequality, minimisers weak duality") {
  for (const double shift : {0.0, 40.0}) {
    for (const Index n : {1, 2, 3, 8, 25}) {
      const auto set = random_polytope(n, 4 * n, static_cast<unsigned>(n), shift);
      Random random{std::mt19937_64(3), {}};
      for (const double size : {0.5, 3.0, 1e3, 1e6}) {
        const Vector x = center_of(*set) + size * random.normal(n);
        const Vector y = projection(*set, x);
        CHECK(set->contains(view(y), 1e-12));
        const Vector z = minimizer(*set, y - x);
        CHECK(set->contains(view(z), 1e-12));
        const double rounding = 1e-14 * (x.norm() + 1.0) * (y.norm() + set->radius());
        CHECK((x - y).dot(z - y) <= rounding);
        CHECK((projection(*set, y) - y).cwiseAbs().maxCoeff() == 0.0);
        // A wrong minimiser would show: the vertex of the opposite direction.
        const Vector worst = minimizer(*set, x - y);
        if ((x - y).norm() > 0.01) CHECK((y - x).dot(worst) > (y - x).dot(z));
      }
    }
  }
}

TEST_CASE("degenerate vertices") {
  for (const Index n : {2, 4, 8}) {
    const auto set = cross_polytope(n);
    const LpBall ball(n, 1.0, 1.0);
    Random random{std::mt19937_64(4), {}};
    for (int k = 0; k < 20; ++k) {
      const Vector x = 2.0 * random.normal(n);
      CHECK((minimizer(*set, x) - minimizer(ball, x)).cwiseAbs().maxCoeff() < 1e-13);
      CHECK((projection(*set, x) - projection(ball, x)).cwiseAbs().maxCoeff() < 1e-13);
    }
    Vector vertex = Vector::Zero(n);
    vertex[n - 1] = 3.0;
    CHECK((projection(*set, vertex) - vertex / 3.0).cwiseAbs().maxCoeff() < 1e-14);
    CHECK(set->lower().minCoeff() == doctest::Approx(-1.0).epsilon(1e-10));
    CHECK(set->radius() == doctest::Approx(std::sqrt(static_cast<double>(n))).epsilon(1e-9));
  }
}

TEST_CASE("redundant and repeated walls change nothing") {
  Random random{std::mt19937_64(5), {}};
  const Index n = 6;
  const auto plain = random_polytope(n, 10, 5);
  RowMatrix rows(3 * plain->rows().rows(), n);
  rows << plain->rows(), plain->rows(), plain->rows();
  Vector bounds(rows.rows());
  bounds << plain->slack(), plain->slack(), plain->slack() * 1.5;
  const auto more = make(rows, bounds, Vector::Zero(n));
  for (int k = 0; k < 40; ++k) {
    const Vector x = 2.0 * random.normal(n);
    CHECK((projection(*more, x) - projection(*plain, x)).cwiseAbs().maxCoeff() < 1e-13);
    CHECK((minimizer(*more, x) - minimizer(*plain, x)).cwiseAbs().maxCoeff() < 1e-13);
  }
}

TEST_CASE("what is not finite, or zero, gives the centre") {
  const auto set = random_polytope(3, 5, 6, 2.0);
  const Vector c = center_of(*set);
  for (const double bad : {kNaN, kInf, -kInf}) {
    const Vector x{{0.1, bad, 0.0}};
    CHECK(minimizer(*set, x) == c);
    CHECK(projection(*set, x) == c);
    CHECK_FALSE(set->contains(view(x), 1e9));
  }
  CHECK(minimizer(*set, Vector::Zero(3)) == c);
  CHECK(projection(*set, c) == c);
  for (const double size : {5e-324, 1e-310, 1e-200, 1e200, 1.7e308}) {
    const Vector g{{size, -size, size}};
    const Vector unit{{1.0, -1.0, 1.0}};
    CHECK(minimizer(*set, g) == minimizer(*set, unit));
    CHECK(set->contains(view(projection(*set, g)), 1e-12));
  }
}

TEST_CASE("the same bits with every instruction set and on every thread") {
  const auto set = random_polytope(12, 40, 7, 1.0);
  Random random{std::mt19937_64(8), {}};
  std::vector<Vector> points;
  for (int k = 0; k < 10; ++k) points.push_back(3.0 * random.normal(12));
  const auto all = [&] {
    std::vector<Vector> found;
    for (const Vector& x : points) {
      found.push_back(minimizer(*set, x));
      found.push_back(projection(*set, x));
    }
    return found;
  };
  simd::select("baseline");
  const std::vector<Vector> expected = all();
  for (const char* name : {"avx2", "avx512"}) {
    try {
      simd::select(name);
    } catch (const std::invalid_argument&) {
      continue;
    }
    CHECK(all() == expected);
  }
  simd::select("auto");
  std::vector<std::vector<Vector>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = all(); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("bad polytopes are refused") {
  const RowMatrix rows{{1.0, 0.0}, {-1.0, 0.0}, {0.0, 1.0}, {0.0, -1.0}};
  const Vector ones = Vector::Ones(4);
  const Vector zero = Vector::Zero(2);
  const Vector low = Vector::Constant(2, -1.0);
  const Vector high = Vector::Constant(2, 1.0);
  CHECK_NOTHROW(Polytope(rows, ones, zero, low, high, 2.0));
  CHECK_THROWS_AS(Polytope(2.0 * rows, ones, zero, low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, Vector::Ones(3), zero, low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, Vector::Zero(3), low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, high, low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, kNaN * ones, zero, low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, kInf * ones, zero, low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, zero, high, low, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, zero, low, Vector::Ones(3), 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, zero, kNaN * low, high, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(Polytope(rows, ones, zero, low, high, kNaN), std::invalid_argument);
  Vector below;
  Vector above;
  CHECK_THROWS_AS(Polytope::bounding_box(rows, ones, zero, 0.0, below, above),
                  std::invalid_argument);
}

TEST_CASE("the body of a polytope") {
  // Symmetric in every wall, so that the centre is the analytic one.
  const Index n = 4;
  Random random{std::mt19937_64(9), {}};
  const Index m = 9;
  RowMatrix rows(2 * m, n);
  for (Index j = 0; j < m; ++j) {
    rows.row(j) = random.normal(n).normalized();
    rows.row(m + j) = -rows.row(j);
  }
  const Vector middle = random.normal(n);
  const auto set = make(rows, Vector::Ones(2 * m) + rows * middle, middle);
  const Body body = Body::of(set, false);
  CHECK(body.kind() == Body::Kind::polytope);
  CHECK_FALSE(body.simplex());
  CHECK(body.dimension() == n);
  CHECK(body.radius() == set->radius());
  const auto barrier = body.barrier();
  for (int k = 0; k < 50; ++k) {
    const Vector step = random.normal(n);
    const Vector u = 0.2 * random.normal(n);
    if (!body.contains(view(u), 0.0)) continue;
    double low = 0.0;
    double high = 0.0;
    body.chord(view(u), view(step), low, high);
    CHECK(low <= 0.0);
    CHECK(high == doctest::Approx(barrier->distance(u, step)).epsilon(1e-12));
    for (const double inside : {low * (1.0 - 1e-9), high * (1.0 - 1e-9)}) {
      const Vector at = u + inside * step;
      CHECK(body.contains(view(at), 0.0));
      CHECK(std::isfinite(barrier->value(at)));
      Vector x(n);
      Vector back(n);
      body.embed(view(at), view(x));
      CHECK(set->contains(view(x), 1e-12));
      body.coordinates(view(x), view(back));
      CHECK((back - at).cwiseAbs().maxCoeff() < 1e-14);
      CHECK(step.dot(at) >= body.support_low(view(step)));
    }
    const Vector out = u + high * (1.0 + 1e-9) * step;
    CHECK_FALSE(body.contains(view(out), 0.0));
    CHECK(std::isinf(barrier->value(out)));
    // The support bound lies between the minimum and the ball's, and is exact along the axes.
    const double least = step.dot(minimizer(*set, step) - middle);
    CHECK(body.support_low(view(step)) <= least);
    CHECK(body.support_low(view(step)) >= -body.radius() * step.norm());
    Vector nearest(n);
    body.project(view(out), view(nearest));
    Vector x(n);
    body.embed(view(out), view(x));
    CHECK((nearest - (projection(*set, x) - middle)).cwiseAbs().maxCoeff() < 1e-14);
  }
  for (Index i = 0; i < n; ++i) {
    const Vector axis = Vector::Unit(n, i);
    const double least = axis.dot(minimizer(*set, axis) - middle);
    CHECK(body.support_low(view(axis)) == doctest::Approx(least).epsilon(1e-10));
  }
}
