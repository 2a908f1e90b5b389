// Noisy max, threshold tests, the shift statistic and the learners on them: what only C++ sees.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/experts/shift_detector.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"

using namespace dpoco;
using namespace dpoco::mechanisms;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

NoisyMaxSettings smallest(std::uint64_t n, double scale,
                          SelectionNoise noise = SelectionNoise::exponential) {
  return {.candidates = n, .scale = scale, .noise = noise, .largest = false};
}

}  // namespace

TEST_CASE("noisy max: one variate per candidate, none without a choice or without noise") {
  Source source(Key{}, 1);
  const std::vector<double> scores{3.0, kNan, 1.0, -2.0};
  NoisyMax exponential(smallest(4, 2.0));
  exponential.select(scores.data(), source);
  CHECK(source.position(Variate::exponential) == 4);
  NoisyMax laplace(smallest(4, 2.0, SelectionNoise::laplace));
  laplace.select(scores.data(), source);
  CHECK(source.position(Variate::laplace) == 4);
  NoisyMax alone(smallest(1, 2.0));
  CHECK(alone.select(scores.data(), source) == 0);
  NoisyMax plain(smallest(4, 0.0));
  CHECK(plain.select(scores.data(), source) == 3);
  CHECK(source.position(Variate::exponential) == 4);
  NoisyMax reversed({.candidates = 4, .scale = 0.0, .largest = true});
  CHECK(reversed.select(scores.data(), source) == 0);
}

TEST_CASE("noisy max: smallest and largest are mirror images, whatever the noise") {
  for (const auto noise :
       {SelectionNoise::exponential, SelectionNoise::gumbel, SelectionNoise::laplace}) {
    Source one(Key{}, 2), two(Key{}, 2);
    NoisyMax least(smallest(3, 1.0, noise));
    NoisyMax most({.candidates = 3, .scale = 1.0, .noise = noise, .largest = true});
    const std::vector<double> scores{0.3, 0.0, 1.0}, mirrored{-0.3, 0.0, -1.0};
    for (int i = 0; i < 50; ++i) {
      CHECK(least.select(scores.data(), one) == most.select(mirrored.data(), two));
    }
  }
}

TEST_CASE("noisy max: settings out of range are refused") {
  CHECK_THROWS_AS(NoisyMax(smallest(0, 1.0)), std::invalid_argument);
  CHECK_THROWS_AS(NoisyMax(smallest(2, -1.0)), std::invalid_argument);
  CHECK_THROWS_AS(NoisyMax(smallest(2, kNan)), std::invalid_argument);
}

TEST_CASE("above threshold: armed for its alarms, and silent for what is no number") {
  Source source(Key{}, 3);
  AboveThreshold test({.threshold_scale = 1.0, .query_scale = 1.0, .alarms = 2});
  CHECK(!test.armed());
  CHECK_THROWS_AS(test.test(0.0, source), RoundOrderError);
  CHECK(source.position(Variate::exponential) == 0);
  test.arm(source);
  CHECK(source.position(Variate::exponential) == 1);
  CHECK(!test.test(-1e9, source));
  CHECK(!test.test(kNan, source));
  CHECK(test.test(1e9, source));
  CHECK(test.armed());
  CHECK(test.test(1e9, source));
  CHECK(!test.armed());
  CHECK_THROWS_AS(test.test(1e9, source), RoundOrderError);
  CHECK(source.position(Variate::exponential) == 5);
  test.arm(source);
  CHECK(test.alarms_left() == 2);
}

TEST_CASE("above threshold: without noise an alarm means at least the threshold") {
  Source source(Key{}, 3);
  AboveThreshold test({});
  test.arm(source);
  CHECK(!test.test(-1e-300, source));
  CHECK(test.test(0.0, source));
}

TEST_CASE("epochs: the rounds a decision was selected from") {
  Source source(Key{}, 4);
  experts::EpochInstance instance(smallest(2, 0.0));
  const std::uint64_t want[] = {0, 1, 1, 2, 2, 2, 2, 4, 4};
  const std::vector<double> losses{1.0, 0.0};
  for (const std::uint64_t from : want) {
    CHECK(instance.selected_from() == from);
    instance.learn(losses.data(), false, source);
  }
  instance.restart();
  CHECK(instance.selected_from() == 0);
  CHECK(!instance.learn(losses.data(), true, source).has_value());
}

TEST_CASE("bias allowance") {
  const experts::BiasAllowance bias{.log_union = 9.517825071724143, .noise = 4.0};
  CHECK(bias.after(0) == 1.0);
  CHECK(bias.after(1) == 1.0);
  CHECK(std::fabs(bias.after(1024) - 0.1735223) < 1e-7);
  const experts::BiasAllowance none{.unselected = 0.0};
  CHECK(none.after(0) == 0.0);
  CHECK(none.after(7) == 0.0);
}

TEST_CASE("detector: an alarm keeps the decision, and the next instance starts a round later") {
  // No noise, no allowances: an alarm as soon as a window lost more than 1.5.
  experts::ShiftDetectorSettings own{
      .selection = smallest(2, 0.0),
      .first = 0,
      .bias = {.unselected = 0.0},
      .test = {},
      .threshold = 1.5,
      .statistic = {.experts = 2, .offsets = {0.0}, .slopes = {0.0}}};
  experts::ShiftDetector learner({.experts = 2, .horizon = 20, .range = {}}, own,
                                 std::make_unique<Source>(Key{}, 5));
  const std::vector<double> good{0.0, 1.0}, bad{1.0, 0.0};
  std::vector<std::uint64_t> played;
  for (std::uint64_t t = 0; t < 12; ++t) {
    played.push_back(learner.decision());
    learner.observe(t, (t < 6 ? good : bad).data());
  }
  // Losses turn in round 6; the window of rounds 6 and 7 lost 2. Round 8 is the first of the new
  // instance, which still plays the old expert; its selection follows.
  CHECK(learner.alarms() == std::vector<std::uint64_t>{7});
  CHECK(played == std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}
