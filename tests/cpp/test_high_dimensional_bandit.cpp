// The high-dimensional bandit: schedule, zero records, clocks, exact state, long runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "dpoco/bandits/high_dimensional_bandit.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"

using namespace dpoco;
using bandits::HighDimensionalBandit;
using frank_wolfe::FrankWolfe;
using frank_wolfe::VertexRule;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kRounds = 31;
constexpr std::size_t kDimension = 3;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<HighDimensionalBandit> make(bool tree, std::uint64_t arms, std::uint64_t forced,
                                            std::uint64_t batch,
                                            double gap = std::numeric_limits<double>::infinity(),
                                            std::uint64_t model_rounds = kRounds) {
  const auto d = static_cast<Index>(kDimension);
  const auto ball = std::make_shared<domains::LpBall>(d, 1.0, 1.0);
  const losses::RecordClipper clipper(d, 1.0, std::numeric_limits<double>::infinity());
  const losses::GlmLoss loss{.weight = 0.5};
  const std::vector<double> start(kDimension, 0.0);
  const frank_wolfe::LeafRule leaves(loss, clipper, 2.0);
  std::vector<std::unique_ptr<FrankWolfe>> models;
  for (std::uint64_t arm = 0; arm < arms; ++arm) {
    auto source = std::make_unique<Source>(Key{1, 2}, arm);
    std::unique_ptr<VertexRule> rule;
    if (tree) {
      auto noise = mechanisms::make_blt(d, {2.0, 0.5}, {{0.01, 0.2}, {0.03, 0.1}});
      rule = frank_wolfe::make_sum_rule(
          ball,
          mechanisms::ContinualSum(d, model_rounds, std::move(noise), 0.5, std::move(source)));
    } else {
      rule = frank_wolfe::make_selection_rule(
          ball, {.scale = 0.3, .exponent = 0.5, .diameters = {2.0, 2.0, 2.0}}, std::move(source));
    }
    models.push_back(std::make_unique<FrankWolfe>(
        ball, leaves, frank_wolfe::FrankWolfeSettings{.horizon = model_rounds, .batch = batch},
        std::move(rule), start));
  }
  return std::make_unique<HighDimensionalBandit>(
      bandits::BanditSettings{arms, kRounds, -1.0, 1.0}, clipper,
      bandits::HighDimensionalBanditSettings{.forced = forced, .batch = batch, .gap = gap}, ball,
      std::move(models));
}

// A rule whose update fails after `fails` of them.
class FailingRule final : public VertexRule {
 public:
  FailingRule(std::uint64_t arm, std::uint64_t fails) : source_(Key{1, 2}, arm), fails_(fails) {}

  void next(std::uint64_t k, double, double, std::span<const double>,
            std::span<double> vertex) override {
    if (k > fails_) throw RoundOrderError("planted");
    std::ranges::fill(vertex, 0.0);
  }
  Index dimension() const noexcept override { return static_cast<Index>(kDimension); }
  const Source& source() const noexcept override { return source_; }
  std::vector<double> nonprivate_sum() const override {
    return std::vector<double>(kDimension, 0.0);
  }
  void write(Archive&) const override {}
  void read(ArchiveReader&, std::uint64_t) override {}

 private:
  Source source_;
  std::uint64_t fails_;
};

std::vector<double> drawn(std::size_t n, std::uint64_t stream) {
  std::vector<double> values(n);
  Source source(Key{9}, stream);
  source.fill(Variate::gaussian, values);
  return values;
}

std::string state_of(const HighDimensionalBandit& learner) {
  Archive archive;
  learner.write(archive);
  return archive.take();
}

}  // namespace

TEST_CASE("high-dimensional bandit: a long run equals single rounds, also through a saved state") {
  for (const bool tree : {false, true}) {
    for (const std::uint64_t forced : {0U, 4U, 20U}) {
      for (const std::uint64_t batch : {1U, 3U}) {
        constexpr std::uint64_t kArms = 3;
        std::vector<double> contexts = drawn(kRounds * kDimension, 1);
        std::vector<double> rewards = drawn(kRounds * kArms, 2);
        contexts[5 * kDimension] = kMissing;
        std::fill_n(rewards.begin() + 17 * kArms, kArms, kMissing);
        auto whole = make(tree, kArms, forced, batch, 0.5);
        std::vector<std::int64_t> chosen(kRounds);
        std::vector<double> own(kRounds);
        whole->run(whole->enter(), contexts, rewards, chosen, own);
        auto single = make(tree, kArms, forced, batch, 0.5);
        for (std::uint64_t t = 0; t < kRounds; ++t) {
          const std::uint64_t arm =
              single->decide(t, std::span(contexts).subspan(t * kDimension, kDimension));
          CHECK(static_cast<std::int64_t>(arm) == chosen[t]);
          if (t < kArms * forced) CHECK(arm == t / forced);
          single->observe(t, rewards[t * kArms + arm]);
          for (std::uint64_t i = 0; i < kArms; ++i) {
            CHECK(single->model(i).round() == single->clock(i, t + 1));
          }
          const std::string bytes = state_of(*single);
          auto restored = make(tree, kArms, forced, batch, 0.5);
          ArchiveReader reader(bytes);
          restored->read(reader);
          reader.finish();
          CHECK(state_of(*restored) == bytes);
          single = std::move(restored);
        }
        CHECK(state_of(*single) == state_of(*whole));
      }
    }
  }
}

TEST_CASE("high-dimensional bandit: other arms get exactly nothing, and their clocks run") {
  for (const bool tree : {false, true}) {
    auto learner = make(tree, 3, 2, 1);
    const std::vector<double> contexts = drawn(kRounds * kDimension, 3);
    for (std::uint64_t t = 0; t < kRounds; ++t) {
      std::vector<std::vector<double>> before;
      for (std::uint64_t i = 0; i < 3; ++i) before.push_back(learner->model(i).nonprivate_sum());
      const std::uint64_t arm =
          learner->decide(t, std::span(contexts).subspan(t * kDimension, kDimension));
      learner->observe(t, t == 9 ? kMissing : 0.7);
      for (std::uint64_t i = 0; i < 3; ++i) {
        if (i != arm || t == 9) CHECK(learner->model(i).nonprivate_sum() == before[i]);
      }
    }
    std::vector<std::uint64_t> draws;
    for (std::size_t i = 0; i < 3; ++i) {
      draws.push_back(learner->source(i).position(Variate::exponential) +
                      learner->source(i).position(Variate::gaussian));
    }
    CHECK(draws[0] > 0);
    CHECK(draws == std::vector<std::uint64_t>(3, draws[0]));
  }
}

TEST_CASE("high-dimensional bandit: settings that do not fit are refused") {
  CHECK_THROWS_AS(make(false, 2, kRounds + 1, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(false, 2, 1, 1, -1.0), std::invalid_argument);
  CHECK_THROWS_AS(make(false, 2, 1, 1, kMissing), std::invalid_argument);
  const auto empty = [](std::uint64_t arms, std::uint64_t rounds, std::uint64_t forced) {
    const auto d = static_cast<Index>(kDimension);
    HighDimensionalBandit({arms, rounds, -1.0, 1.0}, losses::RecordClipper(d, 1.0, 1.0),
                          {.forced = forced}, std::make_shared<domains::LpBall>(d, 1.0, 1.0), {});
  };
  const char* none = "every arm must have a model of the context's dimension";
  const char* many = "too many arms or rounds";
  CHECK_THROWS_WITH(empty(1ULL << 20, 1ULL << 42, 1ULL << 42), none);
  CHECK_THROWS_WITH(empty((1ULL << 20) + 1, 5, 1), many);
  CHECK_THROWS_WITH(empty(1, (1ULL << 42) + 1, 1), many);
  CHECK_THROWS_WITH(empty(1, 5, 6), many);
  auto learner = make(false, 2, 20, 1);  // never a choice
  CHECK(learner->clock(0, kRounds) == 20);
  CHECK(learner->clock(1, kRounds) == 11);
}

TEST_CASE("high-dimensional bandit: models must be able to count all rounds of their clocks") {
  for (const bool tree : {false, true}) {
    const double wide = std::numeric_limits<double>::infinity();
    CHECK_NOTHROW(make(tree, 2, 4, 1, wide, kRounds - 4));
    CHECK_THROWS_AS(make(tree, 2, 4, 1, wide, kRounds - 5), std::invalid_argument);
  }
}

TEST_CASE("high-dimensional bandit: a round that fails midway is the last one") {
  constexpr std::uint64_t kFails = 5;
  const auto d = static_cast<Index>(kDimension);
  const auto ball = std::make_shared<domains::LpBall>(d, 1.0, 1.0);
  const losses::RecordClipper clipper(d, 1.0, std::numeric_limits<double>::infinity());
  const auto fresh = [&](std::uint64_t fails) {
    std::vector<std::unique_ptr<FrankWolfe>> models;
    const std::vector<double> start(kDimension, 0.0);
    for (std::uint64_t arm = 0; arm < 3; ++arm) {
      models.push_back(std::make_unique<FrankWolfe>(
          ball, frank_wolfe::LeafRule(losses::GlmLoss{}, clipper, 2.0),
          frank_wolfe::FrankWolfeSettings{.horizon = kRounds},
          std::make_unique<FailingRule>(arm, arm == 1 ? fails : kRounds), start));
    }
    return std::make_unique<HighDimensionalBandit>(
        bandits::BanditSettings{3, kRounds, -1.0, 1.0}, clipper,
        bandits::HighDimensionalBanditSettings{.forced = 0, .batch = 1}, ball, std::move(models));
  };
  auto learner = fresh(kFails);
  const std::vector<double> contexts(kRounds * kDimension, 0.5);
  const std::vector<double> rewards(kRounds * 3, 0.5);
  std::vector<std::int64_t> chosen(kRounds);
  std::vector<double> own(kRounds);
  CHECK_THROWS_AS(learner->run(learner->enter(), contexts, rewards, chosen, own), RoundOrderError);
  CHECK(learner->round() == kFails);
  CHECK(learner->model(0).round() == kFails + 1);  // torn: the round was begun
  const auto first = std::span(contexts).first(kDimension);
  const auto arm = std::span(chosen).first(1);
  CHECK_THROWS_AS(learner->decide(kFails, first), StateError);
  CHECK_THROWS_AS(learner->observe(kFails, 0.5), StateError);
  CHECK_THROWS_AS(learner->run(learner->enter(), first, std::span(rewards).first(3), arm,
                               std::span(own).first(1)),
                  StateError);
  CHECK_THROWS_AS(learner->replay(learner->enter(), first, arm, std::span(rewards).first(1), arm),
                  StateError);
  CHECK_THROWS_AS(state_of(*learner), StateError);
  // What was released before stays readable, and a whole state makes the learner whole.
  std::vector<double> released(3 * kDimension);
  learner->coefficients(released);
  const std::string bytes = state_of(*fresh(kRounds));
  ArchiveReader reader(bytes);
  learner->read(reader);
  CHECK(state_of(*learner) == bytes);
  CHECK(learner->decide(0, first) == 0);
}
