// The deterministic elementary functions against libm, over their whole ranges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "dpoco/simd/elementary.hpp"

namespace el = dpoco::elementary;

namespace {

double relative(double got, double want) {
  return want == 0.0 ? std::fabs(got) : std::fabs(got / want - 1.0);
}

}  // namespace

TEST_CASE("log agrees with libm on the normal range") {
  std::mt19937_64 bits(1);
  std::uniform_real_distribution<double> exponent(-1020.0, 1020.0);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::exp2(exponent(bits));
    CHECK(std::fabs(el::log(x) - std::log(x)) <= 4e-16 * std::fabs(std::log(x)));
  }
  for (double x : {1.0, std::nextafter(1.0, 2.0), std::nextafter(1.0, 0.0), std::sqrt(0.5)}) {
    CHECK(relative(el::log(x), std::log(x)) <= 4e-16);
  }
}

TEST_CASE("exp agrees with libm and saturates") {
  std::mt19937_64 bits(2);
  std::uniform_real_distribution<double> range(-700.0, 700.0);
  for (int i = 0; i < 100000; ++i) {
    const double x = range(bits);
    CHECK(relative(el::exp(x), std::exp(x)) <= 4e-16);
  }
  CHECK(el::exp(0.0) == 1.0);
  CHECK(el::exp(-1e308) == 0.0);
  CHECK(std::isinf(el::exp(1e308)));
}

TEST_CASE("power, softplus and sigmoid") {
  std::mt19937_64 bits(3);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::uniform_real_distribution<double> wide(-40.0, 40.0);
  for (int i = 0; i < 20000; ++i) {
    const double x = unit(bits);
    const double y = 0.01 + 20.0 * unit(bits);
    const double want = std::pow(x, y);
    const double allowed = 4e-16 * (1.0 + std::fabs(y * std::log(x)));
    CHECK(relative(el::power(x, y), want) <= allowed);
    const double z = wide(bits);
    CHECK(relative(el::softplus(z), std::log1p(std::exp(-std::fabs(z))) + std::fmax(z, 0.0)) <=
          1e-15);
    CHECK(relative(el::sigmoid(z), 1.0 / (1.0 + std::exp(-z))) <= 1e-15);
  }
  CHECK(el::power(0.0, 2.5) == 0.0);
  CHECK(el::power(1.0, 1e6) == 1.0);
  CHECK(el::softplus(1000.0) == 1000.0);
  CHECK(el::softplus(-1000.0) == 0.0);
  CHECK(el::sigmoid(-1000.0) == 0.0);
  CHECK(el::sigmoid(1000.0) == 1.0);
}
