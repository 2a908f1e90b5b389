#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dpoco/domains/barrier.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/kernels.hpp"

using namespace dpoco;
using namespace dpoco::domains;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Vector minimizer(const Domain& domain, const Vector& g) {
  Vector v(domain.dimension());
  domain.minimize_linear(view(g), view(v));
  return v;
}

Vector normal(Index n, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> gaussian;
  Vector x(n);
  for (double& value : x) value = gaussian(generator);
  return x;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    try {
      simd::select(name);
      names.emplace_back(name);
    } catch (const std::invalid_argument&) {
    }
  }
  simd::select("auto");
  return names;
}

}  // namespace

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST_CASE("instruction sets are offered where the compiler's own probe finds all that they need") {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  for (const auto& [name, runs] : {std::pair{"avx2", avx2}, std::pair{"avx512", avx512}}) {
    if (runs) {
      CHECK(simd::select(name) == name);
    } else {
      CHECK_THROWS_AS(simd::select(name), std::invalid_argument);
    }
  }
  CHECK(simd::select("auto") == (avx512 ? "avx512" : avx2 ? "avx2" : "baseline"));
}
#endif

TEST_CASE("linear minimisation over lp balls reproduces the reference vectors") {
  const Vector g{{0.001, -2.0, 0.5, 0.0}};
  const auto check = [&](double p, const Vector& expected) {
    const Vector v = minimizer(LpBall(4, p, 1.5), g);
    for (Index i = 0; i < 4; ++i) CHECK(v[i] == doctest::Approx(expected[i]).epsilon(1e-6));
    const double q = p == 1.0 ? kInf : (std::isinf(p) ? 1.0 : p / (p - 1.0));
    CHECK(g.dot(v) == doctest::Approx(-1.5 * norm(view(g), q)).epsilon(1e-14));
  };
  check(1.0, Vector{{0.0, 1.5, 0.0, 0.0}});
  check(1.5, Vector{{-3.71144e-7, 1.484575664588, -0.092785979037, 0.0}});
  check(2.0, Vector{{-0.00072760679, 1.455213579016, -0.363803394754, 0.0}});
  check(4.0, Vector{{-0.114779645878, 1.44613291941, -0.911006653055, 0.0}});
  check(kInf, Vector{{-1.5, 1.5, -1.5, 0.0}});
}

TEST_CASE("every instruction set gives the same bits") {
  const std::vector<std::string> sets = instruction_sets();
  REQUIRE(!sets.empty());
  for (const Index n : {1, 3, 8, 10, 17, 129, 1000}) {
    const Vector g = normal(n, static_cast<unsigned>(n));
    for (const double p : {1.0, 1.01, 1.5, 2.0, 3.0, 40.0, kInf}) {
      const LpBall ball(n, p, 0.7);
      simd::select(sets.front());
      const Vector v = minimizer(ball, g);
      const double length = norm(view(g), p);
      for (const std::string& name : sets) {
        simd::select(name);
        CHECK((minimizer(ball, g).array() == v.array()).all());
        CHECK(norm(view(g), p) == length);
      }
    }
  }
  simd::select("auto");
}

TEST_CASE("norms are scaled: extremes, subnormals and non-finite entries") {
  for (const double order : {1.0, 1.000001, 1.5, 2.0, 3.0, 7.5, 1e6, kInf}) {
    const double root = std::isinf(order) ? 1.0 : std::pow(3.0, 1.0 / order);
    for (const double size : {5e-324, 1e-310, 1e-300, 1e-200, 1.0, 1e200, 5e307}) {
      const Vector x{{size, -size, 0.0, size}};
      CHECK(norm(view(x), order) / size ==
            doctest::Approx(size == 5e-324 ? std::round(root) : root).epsilon(1e-12));
    }
    for (const double bad : {kNaN, kInf, -kInf}) {
      Vector x = normal(20, 1);
      x[13] = bad;
      CHECK(std::isnan(norm(view(x), order)));
    }
    const Vector zero = Vector::Zero(9);
    CHECK(norm(view(zero), order) == 0.0);
  }
}

TEST_CASE("subnormal inputs longer than one chunk") {
  const Vector x = Vector::Constant(300, 1e-312);
  CHECK(norm(view(x), 3.0) == doctest::Approx(1e-312 * std::cbrt(300.0)).epsilon(1e-10));
  CHECK(norm(view(x), 2.0) == doctest::Approx(1e-312 * std::sqrt(300.0)).epsilon(1e-10));
}

TEST_CASE("bad construction is refused") {
  CHECK_THROWS_AS(LpBall(0, 2.0, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(LpBall(2, 0.9, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(LpBall(2, kNaN, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(LpBall(2, 2.0, 0.0), std::invalid_argument);
  CHECK_THROWS_AS(LpBall(2, 2.0, kInf), std::invalid_argument);
  CHECK_THROWS_AS(Simplex(2, -1.0), std::invalid_argument);
  CHECK_THROWS_AS(Box(Vector::Zero(2), Vector::Zero(3)), std::invalid_argument);
  CHECK_THROWS_AS(Box(Vector(0), Vector(0)), std::invalid_argument);
  CHECK_THROWS_AS(Box(Vector{{0.0, 1.0}}, Vector{{1.0, kNaN}}), std::invalid_argument);
  CHECK_THROWS_AS(Box(Vector{{0.0, 1.0}}, Vector{{1.0, 0.0}}), std::invalid_argument);
}

namespace {

void check_barrier(const Barrier& barrier, const Vector& x) {
  const Index n = barrier.dimension();
  Vector gradient(n);
  RowMatrix hessian(n, n);
  barrier.gradient(x, gradient);
  barrier.hessian(x, hessian);
  constexpr double kStep = 1e-6;
  for (Index i = 0; i < n; ++i) {
    const Vector e = kStep * Vector::Unit(n, i);
    const double slope = (barrier.value(x + e) - barrier.value(x - e)) / (2.0 * kStep);
    CHECK(gradient[i] == doctest::Approx(slope).epsilon(1e-6));
    Vector up(n);
    Vector down(n);
    barrier.gradient(x + e, up);
    barrier.gradient(x - e, down);
    for (Index j = 0; j < n; ++j)
      CHECK(hessian(i, j) == doctest::Approx((up[j] - down[j]) / (2.0 * kStep)).epsilon(1e-5));
  }
  CHECK(barrier.value(barrier.center()) == doctest::Approx(0.0));
  CHECK(barrier.value(x) > 0.0);
  barrier.gradient(barrier.center(), gradient);
  CHECK(gradient.norm() < 1e-9);

  const Vector step = normal(n, 5);
  const double t = barrier.distance(x, step);
  CHECK(std::isfinite(barrier.value(x + 0.999999 * t * step)));
  CHECK(std::isinf(barrier.value(x + 1.000001 * t * step)));
  CHECK(std::isinf(barrier.distance(x, Vector::Zero(n))));
  CHECK(std::isinf(barrier.value(Vector::Constant(n, kNaN))));

  // The bound over the shrunk set holds in every direction.
  for (const double horizon : {1.0, 3.0, 50.0, 1e6}) {
    const double keep = 1.0 - 1.0 / std::max(horizon, 3.0);
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Vector direction = normal(n, seed);
      const double edge = barrier.distance(barrier.center(), direction);
      const Vector point = barrier.center() + keep * edge * direction;
      CHECK(barrier.value(point) <= barrier.shrunk_supremum(horizon) * (1.0 + 1e-9));
    }
  }
}

double squared_decrement_2d(const Barrier& barrier, const Vector& x) {
  Vector g(2);
  RowMatrix h(2, 2);
  barrier.gradient(x, g);
  barrier.hessian(x, h);
  const double det = h(0, 0) * h(1, 1) - h(0, 1) * h(1, 0);
  return (h(1, 1) * g[0] * g[0] - 2.0 * h(0, 1) * g[0] * g[1] + h(0, 0) * g[1] * g[1]) / det;
}

}  // namespace

TEST_CASE("barriers: derivatives, centre, distance to the wall, supremum of the shrunk set") {
  const Vector x{{0.11, -0.23, 0.31}};
  check_barrier(BallBarrier(Vector{{0.1, 0.0, -0.1}}, 2.0, 1.3), x);
  check_barrier(BallBarrier(Vector::Zero(3), 3.5, 1.3), x);
  check_barrier(BoxBarrier(Vector{{-1.0, -2.0, 0.0}}, Vector{{1.0, 0.5, 1.0}}), x);
  check_barrier(PolytopeBarrier::simplex(3, 1.5), Vector{{0.11, 0.23, 0.31}});
  const BallBarrier ball(Vector::Zero(2), 2.0, 1.0);
  CHECK(ball.shrunk_supremum(1000.0) == doctest::Approx(std::log(1e6 / 1999.0)).epsilon(1e-13));
}

TEST_CASE("the barrier parameter bounds the Newton decrement and is approached at the wall") {
  const BallBarrier ball(Vector::Zero(2), 2.0, 1.0);
  const BallBarrier lp(Vector::Zero(2), 4.0, 1.0);
  const BoxBarrier box(Vector::Constant(2, -1.0), Vector::Constant(2, 1.0));
  const PolytopeBarrier simplex = PolytopeBarrier::simplex(2, 1.0);
  double largest[4] = {};
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (int i = 0; i < 20000; ++i) {
    const double t = 1.0 - std::pow(10.0, -6.0 * std::fabs(uniform(generator)));
    const Vector direction{{uniform(generator), uniform(generator)}};
    int which = 0;
    for (const Barrier* barrier :
         {static_cast<const Barrier*>(&ball), static_cast<const Barrier*>(&lp),
          static_cast<const Barrier*>(&box), static_cast<const Barrier*>(&simplex)}) {
      const double edge = barrier->distance(barrier->center(), direction);
      const Vector x = barrier->center() + t * edge * direction;
      largest[which] = std::max(largest[which], squared_decrement_2d(*barrier, x));
      CHECK(largest[which] <= barrier->parameter() * (1.0 + 1e-9));
      ++which;
    }
  }
  CHECK(largest[0] > 0.99);
  CHECK(largest[1] > 0.99);
  CHECK(largest[2] > 1.9);
  CHECK(largest[3] > 1.9);
}

TEST_CASE("barriers refuse what they cannot serve") {
  CHECK_THROWS_AS(BallBarrier(Vector::Zero(2), 1.5, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(BallBarrier(Vector::Zero(2), 2.0, 0.0), std::invalid_argument);
  CHECK_THROWS_AS(BoxBarrier(Vector::Zero(2), Vector{{1.0, 0.0}}), std::invalid_argument);
  RowMatrix rows(3, 2);
  rows << -1.0, 0.0, 0.0, -1.0, 1.0, 1.0;
  const Vector bounds{{0.0, 0.0, 1.0}};
  CHECK_NOTHROW(PolytopeBarrier(rows, bounds, Vector::Constant(2, 1.0 / 3.0)));
  CHECK_THROWS_AS(PolytopeBarrier(rows, bounds, Vector::Constant(2, 0.3)), std::invalid_argument);
  CHECK_THROWS_AS(PolytopeBarrier(rows, bounds, Vector::Constant(2, 0.5)), std::invalid_argument);
}
