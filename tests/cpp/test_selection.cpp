// Noisy max, threshold tests, the shift statistic and the learners on them: what only C++ sees.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/exact_sums.hpp"
#include "dpoco/experts/shift_detector.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/answers.hpp"
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

using Watch = Answers<AboveThreshold>;

Watch watch_of(std::uint64_t stream) {
  return {AboveThreshold({.threshold_scale = 1.0, .query_scale = 1.0, .alarms = 1}), 1000,
          std::make_unique<Source>(Key{}, stream)};
}

bool ask(Watch& watch, double excess) {
  return watch.answer([excess](AboveThreshold& law, Source& source, bool first) {
    return law.test_armed_once(excess, source, first);
  });
}

}  // namespace

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
  CHECK(test.alarms_raised(1) == 0);
}

TEST_CASE("above threshold: one question is the first, and nobody else is in meanwhile") {
  Watch watch = watch_of(6);
  const auto alarms = [](const AboveThreshold& law, std::uint64_t tests) {
    return law.alarms_raised(tests);
  };
  CHECK(watch.inspect(alarms) == 0);
  watch.answer([&](AboveThreshold& law, Source& source, bool first) {
    CHECK(first);
    std::thread other([&] {
      CHECK_THROWS_AS(ask(watch, 100.0), RoundOrderError);
      CHECK_THROWS_AS(watch.inspect(alarms), RoundOrderError);
    });
    other.join();
    return law.test_armed_once(100.0, source, first);
  });
  CHECK(watch.inspect(alarms) == 1);
  CHECK_THROWS_AS(ask(watch, 100.0), HorizonExceeded);
  CHECK(watch.round() == 1);
}

TEST_CASE("above threshold: two threads at once do not get two thresholds") {
  constexpr std::size_t kRaces = 20000;
  std::vector<Watch> watches;
  for (std::size_t i = 0; i < kRaces; ++i) watches.push_back(watch_of(i));
  std::vector<std::atomic<int>> ready(kRaces), alarms(kRaces);
  const auto play = [&] {
    for (std::size_t i = 0; i < kRaces; ++i) {
      ++ready[i];
      for (int spins = 1; ready[i] < 2; ++spins) {
        if (spins % 4096 == 0) std::this_thread::yield();
      }
      try {
        if (ask(watches[i], 100.0)) ++alarms[i];
      } catch (const std::exception&) {  // in use, or the alarm is used up
      }
    }
  };
  std::thread one(play), two(play);
  one.join();
  two.join();
  CHECK(std::all_of(alarms.begin(), alarms.end(), [](const auto& n) { return n == 1; }));
}

TEST_CASE("epochs: sums lose nothing, however long") {
  // Half the epoch the losses are 1; what follows is below half the last digit of such sums.
  constexpr std::uint64_t kEpoch = 1 << 18;
  const double tiny = 0.375 * std::ldexp(1.0, 17 - 52);
  Source source(Key{}, 4);
  experts::EpochInstance instance(smallest(2, 0.0));
  std::optional<std::uint64_t> selected;
  for (std::uint64_t t = 1; t < 2 * kEpoch; ++t) {
    const std::uint64_t in = t - kEpoch;  // the last epoch is the one that counts
    double losses[2] = {1.0, 1.0};
    if (t >= kEpoch && in >= kEpoch / 2) {
      losses[0] = tiny;
      losses[1] = in == kEpoch / 2 ? 1024.0 * tiny : 0.0;
    }
    selected = instance.learn(losses, false, source);
  }
  REQUIRE(selected.has_value());
  CHECK(*selected == 1);
}

TEST_CASE("exact sums: on their grid, too, those that differ by at most 1 do") {
  Source source(Key{}, 8);
  constexpr std::size_t kSize = 5;
  double row[kSize], one[kSize], two[kSize];
  for (int trial = 0; trial < 20; ++trial) {
    ExactSums first(kSize), second(kSize);
    for (int t = 0; t < 300; ++t) {
      for (double& loss : row) loss = source.uniform();
      ExactSums::round(row, row);
      first.add(row);
      if (t == 7) {
        for (double& loss : row) loss = std::round(source.uniform());
      }
      second.add(row);
    }
    for (const std::uint64_t rounds : {300ULL, 1ULL << 40, 1ULL << 50}) {
      first.relative_on_grid(rounds, one);
      second.relative_on_grid(rounds, two);
      const double shift = second.offset() - first.offset();
      for (std::size_t i = 0; i < kSize; ++i) CHECK(std::fabs(two[i] - one[i] + shift) <= 1.0);
      const double grid = std::ldexp(static_cast<double>(std::bit_ceil(rounds)), -51);
      for (const double sum : one) CHECK(std::fmod(sum, std::max(grid, 0x1p-46)) == 0.0);
    }
    second.clear();
    second.relative_on_grid(1, two);
    CHECK(std::all_of(two, two + kSize, [](double sum) { return sum == 0.0; }));
  }
}

TEST_CASE("epochs: the rounds a decision was selected from") {
  Source source(Key{}, 4);
  experts::EpochInstance instance(smallest(2, 0.0));
  const std::uint64_t want[] = {0, 1, 1, 2, 2, 2, 2, 4, 4};
  const std::vector<double> losses{1.0, 0.0};
  for (const std::uint64_t from : want) {
    CHECK(instance.selected_from() == from);
    instance.learn(losses, false, source);
  }
  instance.restart();
  CHECK(instance.selected_from() == 0);
  CHECK(!instance.learn(losses, true, source).has_value());
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
    learner.observe(t, t < 6 ? good : bad);
  }
  // Losses turn in round 6; the window of rounds 6 and 7 lost 2. Round 8 is the first of the new
  // instance, which still plays the old expert; its selection follows.
  CHECK(learner.alarms() == std::vector<std::uint64_t>{7});
  CHECK(played == std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}
