// Continuous multiplicative weights: exact state, broken-off rounds, one thread at a time.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/oco/continuous_multiplicative_weights.hpp"

using namespace dpoco;
using domains::Body;
using losses::GlmKind;
using losses::GlmLoss;
using losses::LossSum;
using losses::RecordClipper;
using oco::ContinuousMultiplicativeWeights;
using oco::ContinuousMultiplicativeWeightsSettings;
using oco::Coupling;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr Index kDimension = 3;
constexpr std::uint64_t kRounds = 60;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::shared_ptr<const domains::Domain> box(Index d = kDimension) {
  return std::make_shared<domains::Box>(Vector::Constant(d, -1.0), Vector::Constant(d, 1.0));
}
std::shared_ptr<const domains::Domain> ball() {
  return std::make_shared<domains::LpBall>(kDimension, 2.0, 1.0);
}
std::shared_ptr<const domains::Domain> simplex() {
  return std::make_shared<domains::Simplex>(kDimension, 1.0);
}

enum class Losses { linear, logistic, squared, matrix };

std::unique_ptr<LossSum> make_sum(Losses kind, std::shared_ptr<const domains::Domain> domain,
                                  bool unbounded) {
  const Index d = domain->dimension();
  const Body body = Body::of(std::move(domain), unbounded);
  const RecordClipper clipper(d, 1.0, 2.0);
  GlmLoss loss;
  switch (kind) {
    case Losses::linear:
      return losses::make_linear_sum(body, clipper);
    case Losses::logistic:
      loss.kind = GlmKind::logistic;
      return losses::make_glm_sum(body, loss, clipper);
    case Losses::squared:
      return losses::make_glm_sum(body, loss, clipper);
    case Losses::matrix:
      break;
  }
  return losses::make_quadratic_sum(body, 10.0, 10.0, kInfinity);
}

ContinuousMultiplicativeWeightsSettings settings_for(Coupling coupling, std::uint64_t block = 2) {
  ContinuousMultiplicativeWeightsSettings settings;
  settings.rule = {.horizon = kRounds, .block = block, .forced = 0.2};
  settings.coupling = coupling;
  settings.gibbs.inverse_temperature = 0.4;
  settings.gibbs.regularization = 6.0;
  settings.clip_high = settings.clip_low = 0.4;
  settings.factor_range = 2.0;
  settings.anchors = 3;
  settings.lipschitz = coupling == Coupling::anchored ? 1e3 : kInfinity;
  settings.clip_error = 1e-3;
  if (coupling == Coupling::scheduled) settings.rule.forced = 1.0;
  if (coupling == Coupling::maximal) {
    settings.rule.forced = 0.0;
    settings.rule.block = 1;
  }
  return settings;
}

struct Case {
  Losses losses;
  std::shared_ptr<const domains::Domain> domain;
  bool unbounded;
  Coupling coupling;
};

std::vector<Case> cases() {
  return {{Losses::linear, box(), false, Coupling::density_ratio},
          {Losses::linear, ball(), false, Coupling::density_ratio},
          {Losses::linear, box(), true, Coupling::maximal},
          {Losses::linear, simplex(), false, Coupling::anchored},
          {Losses::linear, ball(), false, Coupling::dartboard},
          {Losses::logistic, ball(), false, Coupling::dartboard},
          {Losses::logistic, box(), false, Coupling::anchored},
          {Losses::squared, simplex(), false, Coupling::scheduled},
          {Losses::squared, box(), true, Coupling::density_ratio},
          {Losses::matrix, box(), true, Coupling::maximal},
          {Losses::matrix, ball(), true, Coupling::density_ratio}};
}

std::unique_ptr<ContinuousMultiplicativeWeights> make(const Case& one, std::uint32_t key = 7) {
  return std::make_unique<ContinuousMultiplicativeWeights>(
      make_sum(one.losses, one.domain, one.unbounded), settings_for(one.coupling),
      std::make_unique<Source>(Key{key}, 0));
}

struct Records {
  Records() : features(kRounds * kDimension), labels(kRounds) {
    Source source(Key{3}, 0);
    source.fill(Variate::gaussian, features);
    for (double& label : labels) label = source.uniform() < 0.5 ? 0.0 : 1.0;
    features[4 * kDimension] = std::nan("");
    features[9 * kDimension + 1] = kInfinity;
    labels[12] = std::nan("");
  }
  const double* row(std::uint64_t t) const { return features.data() + t * kDimension; }

  std::vector<double> features;
  std::vector<double> labels;
};

void step(ContinuousMultiplicativeWeights& learner, Losses kind, const Records& records,
          std::uint64_t t) {
  const double* v = records.row(t);
  if (kind == Losses::linear) {
    learner.observe_gradient(t, {v, kDimension});
  } else if (kind == Losses::matrix) {
    std::vector<double> matrix(kDimension * kDimension);
    for (Index i = 0; i < kDimension; ++i) {
      for (Index j = 0; j < kDimension; ++j) matrix[i * kDimension + j] = v[i] * v[j];
    }
    learner.observe_quadratic(t, matrix, {v, kDimension});
  } else {
    learner.observe(t, {v, kDimension}, records.labels[t]);
  }
}

std::string state(const ContinuousMultiplicativeWeights& learner) {
  Archive archive;
  learner.write(archive);
  return archive.take();
}

std::vector<double> decision(const ContinuousMultiplicativeWeights& learner) {
  std::vector<double> x(static_cast<std::size_t>(learner.dimension()));
  learner.decision(x);
  return x;
}

}  // namespace

TEST_CASE("state after every round continues bit for bit, and run equals single rounds") {
  const Records records;
  for (const Case& one : cases()) {
    const auto whole = make(one);
    auto resumed = make(one);
    for (std::uint64_t t = 0; t < kRounds; ++t) {
      const std::string bytes = state(*resumed);
      resumed = make(one, 8);
      ArchiveReader reader(bytes);
      resumed->read(reader);
      reader.finish();
      CHECK(state(*resumed) == bytes);
      CHECK(decision(*resumed) == decision(*whole));
      step(*whole, one.losses, records, t);
      step(*resumed, one.losses, records, t);
    }
    CHECK(state(*resumed) == state(*whole));
    CHECK(whole->switches() > 0);
    if (one.losses == Losses::matrix) continue;
    const auto many = make(one);
    std::vector<double> decisions(kRounds * kDimension);
    std::vector<std::uint8_t> changed(kRounds);
    const auto labels = [&](std::size_t first, std::size_t count) -> std::span<const double> {
      if (one.losses == Losses::linear) return {};
      return std::span(records.labels).subspan(first, count);
    };
    many->run(many->enter(), std::span(records.features).first(20 * kDimension), labels(0, 20), {},
              {}, {});
    many->run(many->enter(), {records.row(20), 40 * kDimension}, labels(20, 40), {},
              std::span(decisions).first(40 * kDimension), std::span(changed).first(40));
    CHECK(state(*many) == state(*whole));
  }
}

TEST_CASE("a switch of the maximal coupling goes where the new law has more mass") {
  const Records records;
  const Case one{Losses::linear, box(), false, Coupling::maximal};
  const auto learner = make(one);
  std::vector<double> total(kDimension, 0.0);
  std::uint64_t seen = 0;
  for (std::uint64_t t = 0; t + 1 < kRounds; ++t) {
    const std::uint64_t before = learner->switches();
    learner->observe_gradient(t, {records.row(t), kDimension});
    if (learner->switches() == before) continue;
    ++seen;
    std::vector<double> u(kDimension);
    learner->nonprivate_point(u);
    const double multiplier =
        RecordClipper(kDimension, 1.0, 2.0).multiplier({records.row(t), kDimension});
    double loss = 0.0;
    for (std::size_t i = 0; i < u.size(); ++i) loss += multiplier * records.row(t)[i] * u[i];
    CHECK(-0.4 * loss - learner->nonprivate_log_change() > 0.0);
  }
  CHECK(seen > 3);
}

namespace {

// A loss that fails where it is told to.
class FailingSum final : public LossSum {
 public:
  explicit FailingSum(const Body& body) : LossSum(Kind::custom, body, body.dimension()) {}

  bool empty() const noexcept override { return true; }
  double value(std::span<const double>) override { return 0.0; }
  void gradient(std::span<const double>, std::span<double> out) override { clear(out); }
  void hessian(std::span<const double>, std::span<double> out) override { clear(out); }
  void add_least_hessian(std::span<double>) const override {}
  void prepare_line(std::span<const double>, std::span<const double>) override {}
  double line_value(double) override { return 0.0; }
  double line_slope(double) override { return 0.0; }
  double staged_value(std::span<const double>) const override {
    if (fails) throw std::runtime_error("no value");
    return not_a_number ? std::nan("") : 0.25;
  }
  void staged_gradient(std::span<const double>, std::span<double> out) const override {
    clear(out);
  }
  double staged_curvature(std::span<const double>) const override { return 0.0; }
  std::span<const double> staged_direction() const override { return {}; }
  void staged_hessian(std::span<const double>, std::span<double> out) const override { clear(out); }
  double staged_minimum() override { return 0.0; }
  void commit() override {}
  void write(Archive&) const override {}
  void read(ArchiveReader&) override {}

  bool fails = false;
  bool not_a_number = false;

 private:
  static void clear(std::span<double> out) { std::ranges::fill(out, 0.0); }
};

}  // namespace

TEST_CASE("an exception before the round leaves the state, one within it ends the learner") {
  ContinuousMultiplicativeWeights learner(std::make_unique<FailingSum>(Body::of(box(), false)),
                                          settings_for(Coupling::dartboard),
                                          std::make_unique<Source>(Key{1}, 0));
  const auto nothing = [](LossSum&) {};
  learner.observe_staged(0, nothing);
  CHECK(learner.nonprivate_log_factor() == doctest::Approx(-0.4 * 0.25));
  learner.observe_staged(1,
                         [](LossSum& sum) { static_cast<FailingSum&>(sum).not_a_number = true; });
  CHECK(learner.nonprivate_log_factor() == 0.0);  // as a zero loss
  const std::string before = state(learner);
  CHECK_THROWS_AS(learner.observe_staged(2, [](LossSum&) { throw std::runtime_error("stage"); }),
                  std::runtime_error);
  CHECK(state(learner) == before);
  CHECK_THROWS_AS(
      learner.observe_staged(2, [](LossSum& s) { static_cast<FailingSum&>(s).fails = true; }),
      std::runtime_error);
  CHECK_THROWS_AS(decision(learner), StateError);
  CHECK_THROWS_AS(state(learner), StateError);
  CHECK_THROWS_AS(learner.observe_staged(2, nothing), StateError);
  CHECK_THROWS_AS(learner.observe_staged(3, nothing), StateError);
}

TEST_CASE("one thread at a time; wrong rounds and the horizon") {
  const Records records;
  const auto learner = make(cases().front());
  {
    const auto entry = learner->enter();
    std::atomic<bool> refused{false};
    std::thread other([&] {
      try {
        learner->observe_gradient(0, {records.row(0), kDimension});
      } catch (const RoundOrderError&) {
        refused = true;
      }
    });
    other.join();
    CHECK(refused);
    CHECK_THROWS_AS(decision(*learner), RoundOrderError);
  }
  CHECK(learner->round() == 0);
  CHECK_THROWS_AS(learner->observe_gradient(1, {records.row(0), kDimension}), RoundOrderError);
  CHECK_THROWS_AS(learner->observe(0, {records.row(0), kDimension}, 0.0), std::invalid_argument);
  CHECK_THROWS_AS(
      learner->run(learner->enter(), {records.row(0), (kRounds + 1) * kDimension}, {}, {}, {}, {}),
      HorizonExceeded);
  learner->run(learner->enter(), {records.row(0), kRounds * kDimension}, {}, {}, {}, {});
  CHECK_THROWS_AS(learner->observe_gradient(kRounds, {records.row(0), kDimension}),
                  HorizonExceeded);
}
