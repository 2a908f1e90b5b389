#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "dpoco/experts/cosine_transform.hpp"
#include "dpoco/experts/net_transform.hpp"

using namespace dpoco::experts;

namespace {

// A reproducible sequence in (-1, 1) of no particular law.
std::vector<double> numbers(std::size_t n) {
  std::vector<double> values(n);
  std::uint64_t x = 1;
  for (double& value : values) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<double>(x >> 11) * 0x1p-52 - 1.0;
  }
  return values;
}

}  // namespace

TEST_CASE("unit roots agree with libm and keep exact symmetries") {
  for (const std::size_t n : {1U, 2U, 3U, 5U, 8U, 12U, 97U, 360U, 1024U}) {
    for (std::size_t k = 0; k < 2 * n; ++k) {
      double c;
      double s;
      unit_root(k, n, c, s);
      const double angle =
          2.0 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
      CHECK(std::fabs(c - std::cos(angle)) < 2e-15);
      CHECK(std::fabs(s - std::sin(angle)) < 2e-15);
      double c2;
      double s2;
      unit_root(2 * n - k, n, c2, s2);
      CHECK(c2 == c);
      CHECK((s2 == -s || s == 0.0));
    }
  }
}

TEST_CASE("the cosine transform is the textbook sum, its inverse the transpose, for any length") {
  for (const std::size_t n : {1U, 2U, 3U, 4U, 6U, 7U, 16U, 30U, 49U, 121U}) {
    for (const std::size_t columns : {1U, 3U, 8U, 11U}) {
      CosineTransform transform(n);
      const std::vector<double> in = numbers(n * columns);
      std::vector<double> out(n * columns);
      transform.forward(in, out);
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t k = 0; k < n; ++k) {
          double sum = 0.0;
          for (std::size_t i = 0; i < n; ++i) {
            const double angle = std::numbers::pi * static_cast<double>(k * (2 * i + 1)) /
                                 (2.0 * static_cast<double>(n));
            sum += in[i * columns + column] * std::cos(angle);
          }
          sum *= std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
          CHECK(std::fabs(sum - out[column * n + k]) < 1e-13 * static_cast<double>(n));
        }
      }
      // Back: the inverse takes coefficients by rows and gives its columns as rows.
      std::vector<double> coefficients(n * columns);
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t k = 0; k < n; ++k) {
          coefficients[k * columns + column] = out[column * n + k];
        }
      }
      std::vector<double> back(n * columns);
      transform.inverse(coefficients, back);
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t i = 0; i < n; ++i) {
          CHECK(std::fabs(back[column * n + i] - in[i * columns + column]) < 1e-13);
        }
      }
    }
  }
}

TEST_CASE("transforms of a net: round trip, and the same result every time") {
  const std::vector<std::shared_ptr<NetTransform>> nets = {
      make_increments(17, 1e9), make_grid_laplacian(9, 12, 1e9, 1e9), make_parent(4, {1e9}),
      make_parent(3, {1e9, 2e9})};
  for (const auto& net : nets) {
    const std::vector<double> losses = numbers(net->inputs());
    std::vector<double> sums(net->outputs());
    std::vector<double> again(net->outputs());
    std::vector<double> back(net->inputs());
    CHECK(net->apply(losses, sums) == 0);
    net->invert(sums, back);
    net->apply(losses, again);
    CHECK(sums == again);
    for (std::size_t i = 0; i < back.size(); ++i) {
      CHECK(std::fabs((back[i] - back[0]) - (losses[i] - losses[0])) < 1e-13);
    }
  }
}

TEST_CASE("differences end at their limits, whatever the losses are") {
  const auto net = make_increments(4, 0.5);
  std::vector<double> out(3);
  const std::vector<double> steep = {0.0, 1.7e308, -1.7e308, -1.7e308};
  CHECK(net->apply(steep, out) == 2);
  CHECK(out == std::vector<double>{0.5, -0.5, 0.0});
  const std::vector<double> broken = {0.0, 0.1, std::nan(""), 0.3};
  CHECK(net->apply(broken, out) == 4);
  CHECK(out == std::vector<double>{0.0, 0.0, 0.0});
}
