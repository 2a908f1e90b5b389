// Truncated Gaussians: in-place draws, walls, extreme arguments, chains; run under sanitizers.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "dpoco/domains/body.hpp"
#include "dpoco/samplers/coordinate_gibbs.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"
#include "dpoco/samplers/truncated_normal.hpp"

using dpoco::Index;
using dpoco::RowMatrix;
using dpoco::Vector;
using dpoco::view;
using dpoco::domains::Body;
using dpoco::random::Key;
using dpoco::random::Source;
using dpoco::samplers::CoordinateGibbs;
using dpoco::samplers::TruncatedGaussian;

namespace {

std::vector<Body> bodies(Index d) {
  using namespace dpoco::domains;
  const auto ball = std::make_shared<LpBall>(d, 2.0, 2.0);
  const auto box = std::make_shared<Box>(Vector::Constant(d, -3.0), Vector::Constant(d, 1.0));
  std::vector<Body> all = {Body::of(ball, true), Body::of(ball, false), Body::of(box, false)};
  if (d > 1) all.push_back(Body::of(std::make_shared<Simplex>(d, 2.0), false));
  return all;
}

}  // namespace

TEST_CASE("draws lie in the body and may overwrite the mean") {
  for (const Index d : {1, 2, 3, 17, 64}) {
    for (const Body& body : bodies(d)) {
      TruncatedGaussian law(body);
      const Index n = body.dimension();
      for (const double shift : {0.0, 0.7, 30.0, 1e9}) {
        for (const double scale : {1e-9, 0.3, 5.0, 1e9}) {
          const Vector mean = Vector::Constant(n, shift);
          Source first(Key{}, 3);
          Source second(Key{}, 3);
          for (int repeat = 0; repeat < 3; ++repeat) {
            Vector apart(n);
            law.sample(first, view(mean), scale, view(apart));
            Vector in_place = mean;
            law.sample(second, view(in_place), scale, view(in_place));
            CHECK(apart == in_place);
            CHECK(apart.allFinite());
            CHECK(body.contains(view(apart), 1e-12));
          }
          if (law.has_log_mass()) {
            const double mass = law.log_mass(view(mean), scale);
            CHECK(std::isfinite(mass));
            CHECK(mass <= 0.0);
          } else {
            CHECK_THROWS_AS(law.log_mass(view(mean), scale), std::logic_error);
          }
        }
      }
    }
  }
}

TEST_CASE("the mass of a line is that of an interval, near it and far") {
  TruncatedGaussian line(bodies(1)[1]);
  for (const double mean : {0.0, 1.9, 2.1, 40.0, 1e6}) {
    const double x = mean - 2.0;  // of the nearer end; far away the other end counts nothing
    const double y = 1.0 / (x * x);
    const double want = x < 10.0
                            ? std::log(0.5 * (std::erfc(x / std::numbers::sqrt2) -
                                              std::erfc((mean + 2.0) / std::numbers::sqrt2)))
                            : -0.5 * x * x - 0.5 * std::log(2.0 * std::numbers::pi) - std::log(x) +
                                  std::log1p(-y * (1.0 - y * (3.0 - y * (15.0 - y * 105.0))));
    CHECK(line.log_mass({&mean, 1}, 1.0) == doctest::Approx(want).epsilon(1e-13));
  }
}

TEST_CASE("bodies without exact draws are refused") {
  const auto diamond = std::make_shared<dpoco::domains::LpBall>(3, 1.5, 1.0);
  CHECK_THROWS_AS(TruncatedGaussian(Body::of(diamond, false)), std::invalid_argument);
}

TEST_CASE("one-dimensional draws respect their walls at any scale") {
  Source source(Key{}, 5);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double mean : {-1e200, -1e6, -1.0, 0.0, 0.5, 3.0, 1e12}) {
    for (const double scale : {1e-100, 1e-3, 1.0, 1e100}) {
      for (const double width : {1e-12, 1e-3, 2.0, 1e6}) {
        for (int i = 0; i < 5; ++i) {
          const double x =
              dpoco::samplers::truncated_normal(source, mean, scale, -0.5, -0.5 + width);
          CHECK((x >= -0.5 && x <= -0.5 + width));
        }
      }
      CHECK(dpoco::samplers::truncated_normal(source, mean, scale, 1.0, infinity) >= 1.0);
      CHECK(dpoco::samplers::truncated_normal(source, mean, scale, -infinity, 1.0) <= 1.0);
    }
  }
}

TEST_CASE("a chain keeps its product up to date and stays in the box") {
  const Index n = 7;
  RowMatrix root = RowMatrix::Random(n, n);
  const RowMatrix precision = root * root.transpose() + RowMatrix::Identity(n, n);
  const Vector lower = Vector::Constant(n, -0.5);
  const Vector upper = Vector::Constant(n, 0.25);
  CoordinateGibbs chain(precision, Vector::Zero(n), lower, upper);
  CoordinateGibbs restarted(precision, Vector::Zero(n), lower, upper);
  Source source(Key{}, 7);
  Vector x(n);
  for (int i = 0; i < 1000; ++i) {
    chain.sweep(source);
    chain.current(view(x));
    CHECK(((x - lower).minCoeff() >= 0.0 && (upper - x).minCoeff() >= 0.0));
  }
  // The running product against one from scratch: the next states agree.
  restarted.restart(view(x));
  Source one(Key{}, 8);
  Source two(Key{}, 8);
  chain.sweep(one);
  restarted.sweep(two);
  Vector y(n);
  chain.current(view(x));
  restarted.current(view(y));
  CHECK((x - y).cwiseAbs().maxCoeff() < 1e-11);
}

TEST_CASE("bad chains are refused") {
  const RowMatrix eye = RowMatrix::Identity(2, 2);
  RowMatrix skew = eye;
  skew(0, 1) = 0.5;
  const Vector zero = Vector::Zero(2);
  const Vector one = Vector::Ones(2);
  CHECK_THROWS_AS(CoordinateGibbs(skew, zero, -one, one), std::invalid_argument);
  CHECK_THROWS_AS(CoordinateGibbs(-eye, zero, -one, one), std::invalid_argument);
  CHECK_THROWS_AS(CoordinateGibbs(eye, zero, one, one), std::invalid_argument);
  CHECK_THROWS_AS(CoordinateGibbs(eye, Vector::Zero(3), -one, one), std::invalid_argument);
}
