#include <doctest/doctest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "dpoco/core/packed.hpp"
#include "dpoco/oco/forgetting_leader.hpp"

namespace dpoco::oco {
namespace {

using Matrix = Eigen::MatrixXd;

struct Solution {
  Vector x;  // the minimiser, in the coordinates of the matrix
  SteinTerms terms;
};

// The minimiser of x'A+ x - 2 b'x + ridge |x - c|^2 within `radius` of c.
Solution solve(const Matrix& a, const Vector& b, double ridge, double radius, const Vector& c) {
  const Eigen::SelfAdjointEigenSolver<Matrix> eigen(a);
  const Matrix& vectors = eigen.eigenvectors();
  const Vector spectrum = eigen.eigenvalues();
  const Vector positive = spectrum.cwiseMax(0.0);
  const Vector center = vectors.transpose() * c;
  const Vector pull = vectors.transpose() * b - positive.cwiseProduct(center);
  const Vector convex = positive.array() + ridge;
  Vector from;
  const double multiplier = minimize_on_ball(convex, pull, radius, from);
  const Vector inverse = (convex.array() + multiplier).inverse();
  const Vector x = from + center;
  const auto view = [](const Vector& of) {
    return std::span(of.data(), static_cast<std::size_t>(of.size()));
  };
  return {vectors * x,
          stein_terms(view(spectrum), view(inverse), view(x), view(from), multiplier > 0.0)};
}

// Both terms by central differences in the independent entries of A and in b.
SteinTerms differences(const Matrix& a, const Vector& b, double ridge, double radius,
                       const Vector& c) {
  constexpr double kStep = 1e-5;
  SteinTerms out;
  for (Index i = 0; i < b.size(); ++i) {
    for (Index j = i; j < b.size(); ++j) {
      const auto product = [&](double step) {
        Matrix moved = a;
        moved(i, j) += step;
        if (i != j) moved(j, i) += step;
        const Vector x = solve(moved, b, ridge, radius, c).x;
        return x[i] * x[j];
      };
      out.matrix += (product(kStep) - product(-kStep)) / (2.0 * kStep);
    }
    const auto entry = [&](double step) {
      Vector moved = b;
      moved[i] += step;
      return solve(a, moved, ridge, radius, c).x[i];
    };
    out.vector += (entry(kStep) - entry(-kStep)) / (2.0 * kStep);
  }
  return out;
}

Matrix example() {
  Matrix a(3, 3);
  a << 4.0, 1.0, -0.5, 1.0, -2.0, 0.25, -0.5, 0.25, 1.5;
  return a;
}

const Vector kLinear = Eigen::Vector3d(2.0, -1.0, 0.5);

TEST_CASE("Stein's terms of constrained ridge regressions are those derived by hand") {
  struct Known {
    double ridge, radius;
    Eigen::Vector3d center, x;
    double matrix, vector;
  };
  const Eigen::Vector3d zero = Eigen::Vector3d::Zero();
  const Eigen::Vector3d moved(0.3, -0.2, 0.1);
  const Known known[] = {
      {0.5, 1.0, zero, {0.48114227, -0.83742261, 0.25927878}, -0.2838634942, 0.5405613790},
      {0.1, 2.0, zero, {0.70809184, -1.82195302, 0.42319396}, -1.3460618067, 0.6807562269},
      {0.5, 1.0, moved, {0.60496997, -1.12171094, 0.33967116}, -0.5271069021, 0.5370163737},
      {0.5, 10.0, moved, {0.92719124, -2.81750288, 0.56928656}, -3.6574674437, 2.7229362089},
  };
  for (const Known& each : known) {
    const Solution found = solve(example(), kLinear, each.ridge, each.radius, each.center);
    CHECK((found.x - each.x).norm() < 2e-8);
    CHECK(found.terms.matrix == doctest::Approx(each.matrix).epsilon(1e-9));
    CHECK(found.terms.vector == doctest::Approx(each.vector).epsilon(1e-9));
  }
  const Matrix tie = Eigen::Vector3d(2.0, 2.0, -1.0).asDiagonal();
  const SteinTerms terms = solve(tie, kLinear, 0.5, 1.0, zero).terms;
  CHECK(terms.matrix == doctest::Approx(-0.6375495650).epsilon(1e-9));
  CHECK(terms.vector == doctest::Approx(0.9942406976).epsilon(1e-9));
}

TEST_CASE("Stein's terms are central differences of random problems") {
  std::srand(1);
  for (int trial = 0; trial < 60; ++trial) {
    const Index d = 1 + trial % 5;
    const Matrix half = Matrix::Random(d, d);
    const Matrix a = 3.0 * (half + half.transpose());
    const Vector b = 2.0 * Vector::Random(d);
    const Vector c = trial % 2 == 0 ? Vector::Zero(d) : Vector(0.3 * Vector::Random(d));
    const double radius = trial % 3 == 0 ? 0.3 : 3.0;
    const SteinTerms found = solve(a, b, 0.4, radius, c).terms;
    const SteinTerms expected = differences(a, b, 0.4, radius, c);
    CHECK(found.matrix == doctest::Approx(expected.matrix).epsilon(1e-6));
    CHECK(found.vector == doctest::Approx(expected.vector).epsilon(1e-6));
  }
}

constexpr double kScale = 0.8;  // of vectors

ForgettingSettings settings() {
  const std::vector<double> flat{1.0};
  const std::vector<double> drop{-0.4};
  return {.views = {{{1.0}, flat, drop}, {{0.5}, flat, drop}},
          .ridges = {0.5, 1.0},
          .reference = 1,
          .variance = 1.0,
          .rates = {0.5},
          .weights = {-0.4},
          .memory = {0.9}};
}

TEST_CASE("weights of a forgetting leader are a distribution and decisions stay in the domain") {
  const std::shared_ptr<const domains::Domain> domains[] = {
      std::make_shared<domains::LpBall>(2, 2.0, 1.0),
      std::make_shared<domains::LpBall>(2, 1.0, 1.0)};
  for (const auto& domain : domains) {
    ForgettingLeader leader(domain, 1.0, kScale, settings());
    std::vector<double> decision(2);
    std::srand(2);
    for (int push = 0; push < 50; ++push) {
      const Vector increment = 4.0 * Vector::Random(5);
      leader.advance({increment.data(), 5}, decision);
      double total = 0.0;
      for (const double share : leader.weights()) {
        CHECK(share >= 0.0);
        total += share;
      }
      CHECK(total == doctest::Approx(1.0));
      CHECK(domain->contains(decision, 1e-12));
    }
    Archive archive;
    leader.write(archive);
    const std::string bytes = archive.take();
    ForgettingLeader copy(domain, 1.0, kScale, settings());
    ArchiveReader reader(bytes);
    copy.read(reader);
    reader.finish();
    std::vector<double> again(2);
    const Vector next = Vector::Ones(5);
    leader.advance({next.data(), 5}, decision);
    copy.advance({next.data(), 5}, again);
    CHECK(decision == again);
  }
}

TEST_CASE("probes of a general domain have the closed form of a ball as their mean") {
  // A box so large that it never binds is a ball that never binds.
  const auto ball = std::make_shared<domains::LpBall>(2, 2.0, 1e3);
  const auto box = std::make_shared<domains::LpBall>(2, INFINITY, 1e3);
  ForgettingSettings steady = settings();
  for (ForgettingView& view : steady.views)
    view.kept = {1e-9};  // every push is a problem of its own
  steady.memory = {1.0};
  ForgettingLeader exact(ball, 1e3, kScale, steady);
  ForgettingLeader probed(box, 1e3, kScale, steady);
  std::vector<double> decision(2);
  const std::vector<double> increment{6.0, 1.0, 3.0, 2.0, -1.0};
  constexpr int kPushes = 4000;
  for (int push = 0; push < kPushes; ++push) {
    exact.advance(increment, decision);
    probed.advance(increment, decision);
  }
  for (std::size_t a = 0; a + 1 < exact.excess().size(); ++a) {
    const double mean = exact.excess()[a] / kPushes;
    CHECK(probed.excess()[a] / kPushes == doctest::Approx(mean).epsilon(0.02));
  }
}

TEST_CASE("settings that do not fit are refused") {
  const auto ball = std::make_shared<domains::LpBall>(2, 2.0, 1.0);
  const auto refuses = [&](auto change) {
    ForgettingSettings own = settings();
    change(own);
    CHECK_THROWS_AS(ForgettingLeader(ball, 1.0, kScale, std::move(own)), std::invalid_argument);
  };
  CHECK_THROWS_AS(ForgettingLeader(ball, 1.0, 0.0, settings()), std::invalid_argument);
  refuses([](ForgettingSettings& own) { own.views.clear(); });
  refuses([](ForgettingSettings& own) { own.ridges.clear(); });
  refuses([](ForgettingSettings& own) { own.reference = 2; });
  refuses([](ForgettingSettings& own) { own.memory = {1.5}; });
  refuses([](ForgettingSettings& own) { own.weights.clear(); });
  refuses([](ForgettingSettings& own) { own.views[0].kept = {0.0}; });
  refuses([](ForgettingSettings& own) { own.views[1].covariances.clear(); });
  refuses([](ForgettingSettings& own) { own.views[1].deviations = {0.0}; });
}

}  // namespace
}  // namespace dpoco::oco
