// The compiled batch fits: the same bits however they are split, bounds enforced, even indices.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "dpoco/mechanisms/sampled_gaussian.hpp"

using namespace dpoco;
using frank_wolfe::BatchFit;
using frank_wolfe::BatchProblem;
using random::Key;
using random::Source;

namespace {

constexpr Index kDimension = 5;
constexpr std::uint64_t kRecords = 40;

BatchProblem problem(double spoil = 0.3) {
  std::vector<double> rows(kRecords * kDimension);
  std::vector<double> labels(kRecords);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(static_cast<double>(i * i));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = std::cos(static_cast<double>(i));
  rows[7] = spoil;
  const losses::RecordClipper clipper(kDimension, 1.0, 2.0);
  return {std::make_shared<domains::LpBall>(kDimension, 2.0, 1.0),
          frank_wolfe::BatchRecords(clipper, losses::GlmLoss{}, 4.0, kRecords, rows.data(),
                                    labels.data()),
          std::make_unique<Source>(Key{1, 2, 3}, 4), std::vector<double>(kDimension, 0.0)};
}

using Maker = std::function<std::unique_ptr<BatchFit>(BatchProblem)>;

const std::vector<Maker>& makers() {
  static const std::vector<Maker> all{
      [](BatchProblem p) { return frank_wolfe::make_noisy_sgd(std::move(p), {500, 0.05, 1.0}); },
      [](BatchProblem p) {
        return frank_wolfe::make_noisy_sgd(std::move(p), {500, 0.05, 1.0, 0x1p-20});
      },
      [](BatchProblem p) {
        return frank_wolfe::make_noisy_frank_wolfe(
            std::move(p), {20, 3, 6, 0.2, 4.0, 0.1, 0.1, 0x1p-20, 0x1p-20});
      },
      [](BatchProblem p) {
        return frank_wolfe::make_phased_sgd(std::move(p), {{20, 0.1, 0.02}, {10, 0.05, 0.01}});
      },
      [](BatchProblem p) {
        return frank_wolfe::make_noisy_frank_wolfe(std::move(p), {20, 3, 6, 0.2, 4.0, 0.1, 0.1});
      },
      [](BatchProblem p) {
        return frank_wolfe::make_localized_mirror_descent(
            std::move(p), 1.5, 1.0, 7, {{20, 1.0, 0.5, 0.1}, {10, 2.0, 0.3, 0.1}});
      }};
  return all;
}

std::vector<double> result_of(BatchFit& fit, std::uint64_t portion) {
  while (fit.completed() < fit.units()) fit.advance(portion);
  std::vector<double> theta(kDimension);
  fit.result(theta.data());
  return theta;
}

}  // namespace

TEST_CASE("batch fits do not depend on where they are interrupted") {
  for (const Maker& make : makers()) {
    const auto whole = make(problem());
    const auto parts = make(problem());
    CHECK(result_of(*whole, ~std::uint64_t{0}) == result_of(*parts, 3));
    CHECK(whole->source().position(random::Variate::gaussian) ==
          parts->source().position(random::Variate::gaussian));
  }
}

TEST_CASE("a model is in the domain, and shown only when complete") {
  const domains::LpBall ball(kDimension, 2.0, 1.0);
  for (const Maker& make : makers()) {
    const auto fit = make(problem());
    std::vector<double> theta(kDimension);
    CHECK_THROWS_AS(fit->result(theta.data()), RoundOrderError);
    fit->advance(1);
    CHECK_THROWS_AS(fit->result(theta.data()), RoundOrderError);
    CHECK(ball.contains(result_of(*fit, 100).data(), 1e-12));
  }
}

TEST_CASE("a record that is not finite is a zero record and draws as much") {
  for (const Maker& make : makers()) {
    const auto good = make(problem());
    for (const double spoil : {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), 1e300}) {
      const auto bad = make(problem(spoil));
      for (const double entry : result_of(*bad, 100)) CHECK(std::isfinite(entry));
      result_of(*good, 100);
      CHECK(good->source().position(random::Variate::gaussian) ==
            bad->source().position(random::Variate::gaussian));
    }
  }
}

TEST_CASE("sampled indices are even") {
  const mechanisms::SampledGaussian mechanism(3, 1, 0.0);
  Source source(Key{5}, 6);
  std::vector<int> counts(3, 0);
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) ++counts[mechanism.draw(source)];
  for (const int count : counts) CHECK(std::abs(count - kDraws / 3) < 500);  // 6 deviations
}

TEST_CASE("impossible settings are refused") {
  using frank_wolfe::make_noisy_frank_wolfe;
  using frank_wolfe::make_noisy_sgd;
  using frank_wolfe::make_phased_sgd;
  CHECK_THROWS_AS(make_noisy_sgd(problem(), {0, 0.1, 1.0}), std::invalid_argument);
  CHECK_THROWS_AS(make_noisy_sgd(problem(), {10, 0.1, -1.0}), std::invalid_argument);
  CHECK_THROWS_AS(make_phased_sgd(problem(), {{41, 0.1, 1.0}}), std::invalid_argument);
  CHECK_THROWS_AS(make_noisy_frank_wolfe(problem(), {20, 4, 7, 0.2, 1.0, 1.0, 1.0}),
                  std::invalid_argument);
  CHECK_THROWS_AS(make_noisy_frank_wolfe(problem(), {20, 4, 5, 1.2, 1.0, 1.0, 1.0}),
                  std::invalid_argument);
  // A single batch is the first; records, step sizes and bounds at their ends.
  CHECK_NOTHROW(make_noisy_frank_wolfe(problem(), {1, 0, 1, 1.0, 1.0, 1.0, 1.0}));
  CHECK_NOTHROW(make_noisy_frank_wolfe(problem(), {1, 1, 2, 1.0, 1.0, 1.0, 1.0}));
  CHECK_NOTHROW(make_noisy_frank_wolfe(problem(), {20, 4, 6, 0.2, 1.0, 1.0, 1.0}));
  CHECK_THROWS_AS(make_noisy_frank_wolfe(problem(), {1, 0, 2, 1.0, 1.0, 1.0, 1.0}),
                  std::invalid_argument);
  CHECK_THROWS_AS(make_noisy_frank_wolfe(problem(), {0, 1, 2, 1.0, 1.0, 1.0, 1.0}),
                  std::invalid_argument);
  CHECK_THROWS_AS(make_noisy_frank_wolfe(problem(), {1, 1, 2, 1.0, 0.0, 1.0, 1.0}),
                  std::invalid_argument);
  CHECK_NOTHROW(make_phased_sgd(problem(), {{39, 0.1, 1.0}, {1, 0.1, 0.0}}));
  CHECK_THROWS_AS(make_phased_sgd(problem(), {{39, 0.1, 1.0}, {0, 0.1, 1.0}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(make_phased_sgd(problem(), {}), std::invalid_argument);
  using frank_wolfe::make_localized_mirror_descent;
  CHECK_NOTHROW(make_localized_mirror_descent(problem(), 2.0, 1.0, 1, {{40, 1.0, 0.5, 0.1}}));
  for (const double p : {1.0, 2.1}) {
    CHECK_THROWS_AS(make_localized_mirror_descent(problem(), p, 1.0, 1, {{40, 1.0, 0.5, 0.1}}),
                    std::invalid_argument);
  }
  CHECK_THROWS_AS(mechanisms::SampledGaussian(0, 1, 1.0), std::invalid_argument);
}
