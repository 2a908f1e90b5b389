#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "../../cpp/src/samplers/gibbs_line.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/samplers/gibbs.hpp"

using namespace dpoco;
using namespace dpoco::samplers;
using domains::Body;
using losses::GlmKind;
using losses::LossSum;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

random::Source source(std::uint32_t seed) { return {random::Key{seed, 7, 1, 8, 2, 8, 1, 8}, 3}; }

// A sum with faults: lies about its curvature, returns values that are not numbers.
class Faulty final : public LossSum {
 public:
  Faulty(LossSum& inner, double overstated, bool numbers)
      : LossSum(inner.kind(), inner.body(), inner.rank()),
        inner_(inner),
        overstated_(overstated),
        numbers_(numbers) {}

  bool empty() const noexcept override { return inner_.empty(); }
  double value(std::span<const double> u) override {
    return numbers_ ? inner_.value(u) : std::nan("");
  }
  void gradient(std::span<const double> u, std::span<double> out) override {
    inner_.gradient(u, out);
  }
  void hessian(std::span<const double> u, std::span<double> out) override {
    inner_.hessian(u, out);
  }
  void add_least_hessian(std::span<double> out) const override {
    const Index n = dimension();
    RowMatrix least = RowMatrix::Zero(n, n);
    inner_.add_least_hessian(view(least));
    as_matrix(out, n) += overstated_ * least;
  }
  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    inner_.prepare_line(u, step);
  }
  double line_value(double t) override { return numbers_ ? inner_.line_value(t) : std::nan(""); }
  double line_slope(double t) override { return inner_.line_slope(t); }
  double staged_value(std::span<const double> u) const override { return inner_.staged_value(u); }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    inner_.staged_gradient(u, out);
  }
  double staged_curvature(std::span<const double> u) const override {
    return inner_.staged_curvature(u);
  }
  std::span<const double> staged_direction() const override { return inner_.staged_direction(); }
  void staged_hessian(std::span<const double> u, std::span<double> out) const override {
    inner_.staged_hessian(u, out);
  }
  double staged_minimum() override { return inner_.staged_minimum(); }
  void commit() override {}
  void write(Archive&) const override {}
  void read(ArchiveReader&) override {}

 private:
  LossSum& inner_;
  double overstated_;
  bool numbers_;
};

std::unique_ptr<LossSum> glm_sum(const Body& body, GlmKind kind, double low, double high) {
  return losses::make_glm_sum(body, {kind, 1.0, kind == GlmKind::huber ? 0.3 : 1.0, low, high},
                              losses::RecordClipper(body.ambient(), 100.0, 2.0));
}

// 40 sp(.6x + .8y) + 25 sp(x) + 30 sp(-.8x + .6y) on the unit disc, sp = log(1 + exp).
std::unique_ptr<LossSum> disc_sum() {
  const Body body = Body::of(std::make_shared<domains::LpBall>(2, 2.0, 1.0), false);
  auto sum = glm_sum(body, GlmKind::logistic, 0.0, 1.0);
  const double rows[3][2] = {{0.6, 0.8}, {1.0, 0.0}, {-0.8, 0.6}};
  const int counts[3] = {40, 25, 30};
  for (int r = 0; r < 3; ++r) {
    for (int k = 0; k < counts[r]; ++k) {
      sum->stage_record(rows[r], 0.0);
      sum->commit();
    }
  }
  return sum;
}

constexpr GibbsSettings kDisc{.inverse_temperature = 0.4, .regularization = 3.0};

// Largest distance of the means of x, y and x^2 + y^2 from quadrature, in standard errors.
double deviation(const std::vector<double>& draws) {
  const double expected[3] = {-0.31485046, -0.76482288, 0.7723032};
  double sum[3] = {};
  double square[3] = {};
  const std::size_t n = draws.size() / 2;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = draws[2 * i];
    const double y = draws[2 * i + 1];
    const double each[3] = {x, y, x * x + y * y};
    for (int k = 0; k < 3; ++k) {
      sum[k] += each[k];
      square[k] += each[k] * each[k];
    }
  }
  double worst = 0.0;
  const auto size = static_cast<double>(n);
  for (int k = 0; k < 3; ++k) {
    const double mean = sum[k] / size;
    const double variance = square[k] / size - mean * mean;
    worst = std::max(worst, std::fabs(mean - expected[k]) / std::sqrt(variance / size));
  }
  return worst;
}

std::vector<std::shared_ptr<domains::Domain>> bodies() {
  return {std::make_shared<domains::LpBall>(4, 2.0, 0.7),
          std::make_shared<domains::LpBall>(4, 1.5, 0.7),
          std::make_shared<domains::LpBall>(4, 1.0, 0.7),
          std::make_shared<domains::LpBall>(4, 5.0, 0.7),
          std::make_shared<domains::Box>(Vector::Constant(4, -0.2), Vector::Constant(4, 0.5)),
          std::make_shared<domains::Simplex>(5, 1.3),
          std::make_shared<domains::Box>(Vector::Constant(1, -0.2), Vector::Constant(1, 0.5))};
}

// A few rows of the body's dimension, the same on every machine.
void fill(LossSum& sum, int rows) {
  const auto d = static_cast<std::size_t>(sum.body().ambient());
  std::vector<double> row(d);
  auto from = source(99);
  for (int k = 0; k < rows; ++k) {
    from.fill(random::Variate::gaussian, row);
    sum.stage_record(row, k % 3 == 0 ? 1.0 : 0.0);
    sum.commit();
  }
}

}  // namespace

TEST_CASE("logistic losses on the disc: mode, moments, and what an invalid envelope does") {
  const auto sum = disc_sum();
  GibbsSampler sampler(sum->body(), kDisc);
  double mode[2];
  CHECK(sampler.mode(*sum, mode) < 1e-12);
  CHECK(mode[0] == doctest::Approx(-0.36317777).epsilon(1e-7));
  CHECK(mode[1] == doctest::Approx(-0.93171987).epsilon(1e-7));

  const Index n = 200000;
  std::vector<double> draws(2 * static_cast<std::size_t>(n));
  auto from = source(1);
  sampler.sample_many(from, *sum, draws);
  CHECK(sampler.nonprivate_report().method == GibbsMethod::envelope);
  const auto proposals = static_cast<double>(sampler.nonprivate_report().proposals);
  CHECK(static_cast<double>(n) / proposals == doctest::Approx(0.9).epsilon(0.01));
  CHECK(deviation(draws) < 5.0);

  // Twice the proven curvature is too much.
  Faulty faulty(*sum, 2.0, true);
  sampler.sample_many(from, faulty, draws);
  CHECK(deviation(draws) > 5.0);
}

TEST_CASE("hit-and-run on the disc") {
  const auto sum = disc_sum();
  GibbsSettings settings = kDisc;
  settings.exact_only = false;
  settings.chain_below = 2.0;
  settings.tolerance = 1e-4;
  GibbsSampler sampler(sum->body(), settings);
  const Index n = 5000;
  std::vector<double> draws(2 * static_cast<std::size_t>(n));
  auto from = source(2);
  sampler.sample_many(from, *sum, draws);
  CHECK(sampler.nonprivate_report().method == GibbsMethod::hit_and_run);
  CHECK(sampler.nonprivate_report().proposals ==
        5000 * GibbsSampler::chosen_length(sum->body(), settings));
  CHECK(deviation(draws) < 5.0);
}

TEST_CASE("every method on every body: inside, reproducible, without memory") {
  for (const auto& domain : bodies()) {
    const Body body = Body::of(domain, false);
    const auto n = static_cast<std::size_t>(body.dimension());
    for (const GlmKind kind : {GlmKind::logistic, GlmKind::huber, GlmKind::squared}) {
      const auto sum = glm_sum(body, kind, 0.0, 1.0);
      const auto other = glm_sum(body, kind, 0.0, 1.0);
      fill(*sum, 20);
      fill(*other, 3);
      for (const double below : {0.0, 2.0}) {
        const GibbsSettings settings{.inverse_temperature = 2.0,
                                     .regularization = 0.1,
                                     .exact_only = below == 0.0,
                                     .tolerance = 1e-3,
                                     .chain_below = below,
                                     .langevin_above = 3};
        GibbsSampler sampler(body, settings);
        GibbsSampler used(body, settings);
        auto warm = source(5);
        std::vector<double> first(n);
        std::vector<double> second(n);
        used.sample(warm, *other, first);
        auto a = source(4);
        auto b = source(4);
        for (int k = 0; k < 5; ++k) {
          sampler.sample(a, *sum, first);
          used.sample(b, *sum, second);
          CHECK(first == second);
          CHECK(body.contains(first, 1e-12));
        }
        CHECK(sampler.mode(*sum, first) < 1e-8);
        CHECK(body.contains(first, 1e-12));
      }
    }
  }
}

TEST_CASE("nothing committed, zero records and values that are not numbers") {
  for (const auto& domain : bodies()) {
    const Body body = Body::of(domain, false);
    std::vector<double> u(static_cast<std::size_t>(body.dimension()));
    GibbsSampler sampler(body, {.inverse_temperature = 1.0, .regularization = 0.5});
    auto from = source(6);
    const auto sum = glm_sum(body, GlmKind::logistic, 0.0, 1.0);
    sampler.sample(from, *sum, u);
    CHECK(sampler.nonprivate_report().method == GibbsMethod::truncated_gaussian);
    CHECK(body.contains(u, 1e-12));
    CHECK(sampler.mode(*sum, u) == 0.0);
    for (const double each : u) CHECK(each == 0.0);

    const std::vector<double> zero(static_cast<std::size_t>(body.ambient()), 0.0);
    sum->stage_record(zero, 1.0);
    sum->commit();
    sampler.sample(from, *sum, u);
    CHECK(body.contains(u, 1e-12));
    CHECK(sampler.mode(*sum, u) < 1e-12);

    fill(*sum, 5);
    Faulty faulty(*sum, 1.0, false);
    sampler.sample(from, faulty, u);  // returns
  }
}

TEST_CASE("a law much narrower than the body, on its wall, for all methods") {
  const Body body = Body::of(
      std::make_shared<domains::Box>(Vector::Constant(3, -1.0), Vector::Constant(3, 1.0)), false);
  const auto sum = glm_sum(body, GlmKind::logistic, 0.0, 1.0);
  const double rows[3][3] = {{8.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 3.0}};
  for (const auto& row : rows) {
    for (int k = 0; k < 100; ++k) {
      sum->stage_record(row, k < 5 ? 1.0 : 0.0);
      sum->commit();
    }
  }
  for (const double below : {0.0, 2.0}) {
    GibbsSampler sampler(body, {.inverse_temperature = 100.0,
                                .regularization = 1e-3,
                                .exact_only = below == 0.0,
                                .tolerance = 1e-3,
                                .chain_below = below});
    auto from = source(8);
    std::array<double, 600> draws;
    sampler.sample_many(from, *sum, draws);
    // Near its wall x_2 is exponential with rate 100 (95 sigmoid(-1) - 5 sigmoid(1)) = 2189.
    double mean = 0.0;
    for (std::size_t i = 0; i < 200; ++i) mean += (draws[3 * i + 1] + 1.0) / 200.0;
    CHECK(mean * 2189.0 == doctest::Approx(1.0).epsilon(0.4));  // 5.6 standard errors
  }
}

TEST_CASE("public arguments are checked") {
  const Body body = Body::of(std::make_shared<domains::LpBall>(2, 2.0, 1.0), false);
  for (const double wrong : {0.0, -1.0, kInf, std::nan("")}) {
    CHECK_THROWS_AS(GibbsSampler(body, {.inverse_temperature = wrong}), std::invalid_argument);
    CHECK_THROWS_AS(GibbsSampler(body, {.regularization = wrong}), std::invalid_argument);
    CHECK_THROWS_AS(GibbsSampler(body, {.tolerance = wrong}), std::invalid_argument);
  }
  const auto length = [](Index dimension, double tolerance) {
    const Body ball = Body::of(std::make_shared<domains::LpBall>(dimension, 2.0, 1.0), false);
    return GibbsSampler::chosen_length(ball, {.tolerance = tolerance});
  };
  CHECK(length(1, 0.1) == 10);  // ceil(4 ln 10)
  CHECK(length(10, 1e-12) == 1152);
}

TEST_CASE("a line's far end has its digits") {
  // Uniform variates closer to 1 than doubles are: -log(1 - share) goes on as -log(rest).
  for (const double rest : {0x1p-53, 0x1p-60, 0x1p-300}) {
    CHECK(cut_exponential(1.0, rest, kInf) == doctest::Approx(-std::log(rest)).epsilon(1e-14));
  }
  // Cut at 50: of the law of what is left, not a heap at 36.7.
  const double end = std::exp(-50.0);
  CHECK(cut_exponential(1.0, 0x1p-80, 50.0) == doctest::Approx(-std::log(0x1p-80 + end)));
  // The same function on both sides of where the distance from 1 takes over.
  for (const double share : {1.0 - 0x1p-39, 1.0 - 0x1.8p-40, 1.0 - 0x1.8p-41}) {
    CHECK(cut_exponential(share, 1.0 - share, 30.0) ==
          doctest::Approx(-std::log(1.0 - share + share * std::exp(-30.0))).epsilon(1e-5));
  }
  CHECK(cut_exponential(1.0, 0x1p-60, 0.25) == doctest::Approx(0.25));
  // Pieces of masses that doubles near 1 cannot tell apart.
  const std::array<double, 4> masses{1.0, 0x1p-50, 0x1p-60, 0x1p-70};
  const double total = 1.0 + 0x1p-50;
  const auto at = [&](double share, double rest) { return piece_at(masses, total, share, rest); };
  CHECK(at(0.5, 0.5) == 0);
  CHECK(at(1.0, 0x1p-49) == 0);
  CHECK(at(1.0, 0x1p-52) == 1);
  CHECK(at(1.0, 0x1p-61) == 2);
  CHECK(at(1.0, 0x1p-80) == 3);
}
