// Streaming noise processes against dense matrices, allocation-free rounds, bounds of the horizon.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"

using namespace dpoco;
using namespace dpoco::mechanisms;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kHorizons[] = {1, 2, 3, 7, 8, 9, 31, 32, 33};

BltParameters blt_parameters() {
  BltParameters p;
  p.decay = {0.001, 0.01, 0.1, 0.2, 0.6};
  p.omega = {0.03, 0.05, 0.09, 0.17, 0.16};
  return p;
}

// Draw j of a process with scale 1 in dimension d is Gaussians j d .. j d + d - 1 of its source.
std::vector<double> draws(std::size_t count) {
  Source source(Key{}, 3);
  std::vector<double> z(count);
  source.fill(Variate::gaussian, z.data(), count);
  return z;
}

void check_rows(NoiseProcess& process, std::uint64_t n, const Eigen::MatrixXd& rows) {
  constexpr Index d = 3;
  Source source(Key{}, 3);
  const auto z = draws(static_cast<std::size_t>(rows.cols() * d));
  std::vector<double> released(static_cast<std::size_t>(n) * d);
  // One call for the first round, one for all others: the split must not matter.
  process.advance(1, 1, source, released.data());
  process.advance(2, n - 1, source, released.data() + d);
  for (std::uint64_t t = 1; t <= n; ++t) {
    const double* noise = released.data() + (t - 1) * d;
    for (Index i = 0; i < d; ++i) {
      double want = 0.0;
      for (Index j = 0; j < rows.cols(); ++j) {
        want += rows(static_cast<Index>(t) - 1, j) * z[static_cast<std::size_t>(j * d + i)];
      }
      CHECK(std::fabs(noise[i] - want) <= 1e-12 * (1.0 + std::fabs(want)));
    }
  }
}

}  // namespace

TEST_CASE("tree: a prefix is the sum of its dyadic nodes, each drawn once") {
  for (std::uint64_t n : kHorizons) {
    Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(static_cast<Index>(n), static_cast<Index>(n));
    for (std::uint64_t t = 1; t <= n; ++t) {
      // The node ending at e is drawn in round e: walk down the binary expansion of t.
      for (std::uint64_t e = t; e > 0; e &= e - 1) {
        rows(static_cast<Index>(t) - 1, static_cast<Index>(e) - 1) = 1.0;
      }
      CHECK(rows.row(static_cast<Index>(t) - 1).squaredNorm() == std::popcount(t));
    }
    check_rows(*make_tree(3, n, {2.0, 1.0}), n, rows);
  }
}

TEST_CASE("honaker: node estimates combine own draw and children by inverse variance") {
  for (std::uint64_t n : kHorizons) {
    // Draw index: leaf of t first, then the completed ancestors from below.
    const Index total = static_cast<Index>(2 * n);
    std::vector<Eigen::VectorXd> estimate;  // indexed by (level, end)
    Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(static_cast<Index>(n), total);
    std::vector<std::vector<Eigen::VectorXd>> by_level(64, std::vector<Eigen::VectorXd>(n + 1));
    Index next = 0;
    for (std::uint64_t t = 1; t <= n; ++t) {
      for (std::size_t level = 0; level <= static_cast<std::size_t>(std::countr_zero(t)); ++level) {
        Eigen::VectorXd own = Eigen::VectorXd::Unit(total, next++);
        if (level > 0) {
          const auto& left = by_level[level - 1][t - (1ULL << (level - 1))];
          const auto& right = by_level[level - 1][t];
          const double whole = std::exp2(static_cast<double>(level));
          const double v = 0.5 * whole / (whole - 1.0);
          const double w = 1.0 / (1.0 + 1.0 / (2.0 * v));
          own = w * own + (1.0 - w) * (left + right);
          CHECK(own.squaredNorm() == doctest::Approx(w).epsilon(1e-12));
        }
        by_level[level][t] = own;
      }
      for (std::uint64_t e = t; e > 0; e &= e - 1) {
        rows.row(static_cast<Index>(t) - 1) +=
            by_level[static_cast<std::size_t>(std::countr_zero(e))][e].transpose();
      }
    }
    check_rows(*make_honaker(3, n, {2.0, 1.0}), n, rows);
  }
}

TEST_CASE("toeplitz: the rows are those of the square root of the prefix matrix") {
  for (std::uint64_t n : kHorizons) {
    const auto size = static_cast<Index>(n);
    Eigen::MatrixXd root = Eigen::MatrixXd::Zero(size, size);
    for (Index i = 0; i < size; ++i) {
      double f = 1.0;
      for (Index k = 0; k <= i; ++k) {
        if (k > 0) f *= 1.0 - 1.0 / (2.0 * static_cast<double>(k));
        root(i, i - k) = f;
      }
    }
    const Eigen::MatrixXd square = root * root;
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j <= i; ++j) CHECK(square(i, j) == doctest::Approx(1.0).epsilon(1e-10));
    }
    check_rows(*make_toeplitz(3, n, {2.0, 1.0}), n, root);
  }
}

TEST_CASE("blt: rows times the Toeplitz matrix of its coefficients give the prefix matrix") {
  const auto parameters = blt_parameters();
  for (std::uint64_t n : kHorizons) {
    const auto size = static_cast<Index>(n);
    Eigen::MatrixXd c = Eigen::MatrixXd::Identity(size, size);
    for (Index i = 1; i < size; ++i) {
      double value = 0.0;
      for (std::size_t b = 0; b < parameters.decay.size(); ++b) {
        value +=
            parameters.omega[b] * std::pow(1.0 - parameters.decay[b], static_cast<double>(i - 1));
      }
      for (Index j = 0; i + j < size; ++j) c(i + j, j) = value;
    }
    const Eigen::MatrixXd prefix = Eigen::MatrixXd::Ones(size, size).triangularView<Eigen::Lower>();
    const Eigen::MatrixXd rows = prefix * c.inverse();
    check_rows(*make_blt(3, {2.0, 1.0}, parameters), n, rows);
  }
}

TEST_CASE("the horizon ends before noise is drawn, and the state is unchanged") {
  auto source = std::make_unique<Source>(Key{}, 3);
  ContinualSum sum(2, 3, make_tree(2, 3, {2.0, 1.0}), 1.0, std::move(source));
  const double g[2] = {1.0, -1.0};
  double out[2];
  for (int t = 0; t < 3; ++t) sum.push(g, out);
  Archive before;
  sum.write(before);
  CHECK_THROWS_AS(sum.push(g, out), HorizonExceeded);
  Archive after;
  sum.write(after);
  CHECK(before.take() == after.take());
  CHECK(sum.source().position(Variate::gaussian) == 6);
}

TEST_CASE("a clipper bounds summands and drops non-finite ones") {
  const losses::RecordClipper clipper(2, 1.0, 2.0, std::numeric_limits<double>::infinity());
  ContinualSum sum(2, 4, make_silence(2), 0.0, std::make_unique<Source>(Key{}, 0), clipper);
  double out[2];
  const double large[2] = {30.0, 40.0};
  sum.push(large, out);
  CHECK(std::hypot(out[0], out[1]) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(std::hypot(out[0], out[1]) <= 1.0 + 1e-15);
  const double bad[2] = {std::nan(""), 1.0};
  const double kept[2] = {out[0], out[1]};
  sum.push(bad, out);
  CHECK(out[0] == kept[0]);
  CHECK(out[1] == kept[1]);
}
