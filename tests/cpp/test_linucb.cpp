// Private LinUCB: long runs equal single rounds, exact state, order of calls, replay of a log.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "dpoco/bandits/linucb.hpp"
#include "dpoco/core/errors.hpp"

using namespace dpoco;
using bandits::LinUcb;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kRounds = 41;
constexpr std::size_t kDimension = 3;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<LinUcb> make(std::uint64_t arms, std::uint64_t batch, double scale = 0.5,
                             std::uint64_t rounds = kRounds) {
  const auto entries = static_cast<Index>(LinUcb::sum_dimension(arms, kDimension));
  auto noise = scale > 0.0 ? mechanisms::make_blt(entries, {2.0, scale}, {{0.01, 0.2}, {0.03, 0.1}})
                           : mechanisms::make_silence(entries);
  return std::make_unique<LinUcb>(
      bandits::BanditSettings{arms, rounds, -1.0, 1.0},
      losses::RecordClipper(static_cast<Index>(kDimension), 1.0, 2.0),
      bandits::LinUcbSettings{.batch = batch, .reward_weight = 1.3, .shift = 4.0, .growth = 0.1},
      mechanisms::ContinualSum(entries, std::max<std::uint64_t>((rounds - 1) / batch, 1),
                               std::move(noise), scale, std::make_unique<Source>(Key{1, 2, 3}, 4)));
}

std::vector<double> drawn(std::size_t n, std::uint64_t stream) {
  std::vector<double> values(n);
  Source source(Key{9}, stream);
  source.fill(Variate::gaussian, values);
  return values;
}

std::string state_of(const LinUcb& learner) {
  Archive archive;
  learner.write(archive);
  return archive.take();
}

// Of the round t.
std::span<const double> row(const std::vector<double>& contexts, std::uint64_t t) {
  return std::span(contexts).subspan(t * kDimension, kDimension);
}

}  // namespace

TEST_CASE("bandits: a long run equals single rounds, also through a saved state") {
  for (const std::uint64_t arms : {1U, 4U}) {
    for (const std::uint64_t batch : {1U, 4U, 60U}) {
      std::vector<double> contexts = drawn(kRounds * kDimension, 1);
      std::vector<double> rewards = drawn(kRounds * arms, 2);
      contexts[4 * kDimension] = kMissing;
      std::fill_n(rewards.begin() + static_cast<std::ptrdiff_t>(7 * arms), arms, kMissing);
      auto whole = make(arms, batch);
      std::vector<std::int64_t> chosen(kRounds);
      std::vector<double> own(kRounds);
      for (std::uint64_t t = 0, count = 1; t < kRounds; t += count, count = 2 * count + 1) {
        count = std::min(count, kRounds - t);
        whole->run(whole->enter(), std::span(contexts).subspan(t * kDimension, count * kDimension),
                   std::span(rewards).subspan(t * arms, count * arms),
                   std::span(chosen).subspan(t, count), std::span(own).subspan(t, count));
      }
      auto single = make(arms, batch);
      for (std::uint64_t t = 0; t < kRounds; ++t) {
        const auto context = row(contexts, t);
        std::int64_t advice = -1;
        single->recommend(single->enter(), context, {&advice, 1});
        const std::uint64_t arm = single->decide(t, context);
        CHECK(arm == single->decide(t, context));
        CHECK(static_cast<std::int64_t>(arm) == chosen[t]);
        CHECK(advice == chosen[t]);
        single->observe(t, rewards[t * arms + arm]);
        const std::string bytes = state_of(*single);
        auto restored = make(arms, batch);
        ArchiveReader reader(bytes);
        restored->read(reader);
        reader.finish();
        CHECK(state_of(*restored) == bytes);
        single = std::move(restored);
      }
      CHECK(state_of(*single) == state_of(*whole));
      CHECK(whole->sum().round() == (kRounds - 1) / batch);
      CHECK(own[7] == 0.0);
    }
  }
}

TEST_CASE("bandits: a round has one context, and a reward ends it") {
  auto learner = make(2, 1);
  const double first[] = {0.1, -0.2, 0.3};
  const double other[] = {0.1, -0.2, 0.25};
  const std::string before = state_of(*learner);
  CHECK_THROWS_AS(learner->observe(0, 0.5), RoundOrderError);
  CHECK_THROWS_AS(learner->decide(1, first), RoundOrderError);
  learner->decide(0, first);
  CHECK_THROWS_AS(learner->decide(0, other), RoundOrderError);
  std::int64_t arm = 0;
  double own = 0.0;
  CHECK_THROWS_AS(
      learner->run(learner->enter(), first, std::span(first).first(2), {&arm, 1}, {&own, 1}),
      RoundOrderError);
  CHECK_THROWS_AS(learner->recommend(learner->enter(), first, {&arm, 1}), RoundOrderError);
  CHECK_THROWS_AS(learner->observe(1, 0.5), RoundOrderError);
  CHECK(state_of(*learner) == before);
  learner->observe(0, 0.5);
  CHECK_THROWS_AS(learner->observe(1, 0.5), RoundOrderError);
  CHECK(learner->round() == 1);
  auto last = make(2, 1, 0.5, 1);
  last->decide(0, first);
  last->observe(0, 0.5);
  CHECK(last->sum().round() == 0);
  CHECK_THROWS_AS(last->decide(1, first), HorizonExceeded);
}

TEST_CASE("bandits: without noise factors are updated, saved, and those of the statistics") {
  const std::vector<double> contexts = drawn(kRounds * kDimension, 11);
  const std::vector<double> rewards = drawn(kRounds * 2, 12);
  const auto entries = static_cast<Index>(LinUcb::sum_dimension(2, kDimension));
  const auto quiet = [&](bool exact) {
    return std::make_unique<LinUcb>(
        bandits::BanditSettings{2, kRounds, -1.0, 1.0},
        losses::RecordClipper(static_cast<Index>(kDimension), 1.0, 2.0),
        bandits::LinUcbSettings{.exact = exact, .shift = 0.5, .growth = 0.1},
        mechanisms::ContinualSum(entries, kRounds, mechanisms::make_silence(entries), 0.0,
                                 std::make_unique<Source>(Key{1}, 2)));
  };
  auto fast = quiet(true);
  auto plain = quiet(false);
  for (std::uint64_t t = 0; t < kRounds; ++t) {
    const auto context = row(contexts, t);
    const std::uint64_t arm = plain->decide(t, context);
    CHECK(fast->decide(t, context) == arm);
    for (auto* learner : {fast.get(), plain.get()}) {
      learner->observe(t, t % 7 == 3 ? kMissing : rewards[2 * t + arm]);
    }
    std::vector<double> own(2 * kDimension);
    std::vector<double> other(2 * kDimension);
    fast->coefficients(own);
    plain->coefficients(other);
    for (std::size_t i = 0; i < own.size(); ++i) CHECK(own[i] == doctest::Approx(other[i]));
    const std::string bytes = state_of(*fast);
    auto restored = quiet(true);
    ArchiveReader reader(bytes);
    restored->read(reader);
    reader.finish();
    restored->coefficients(other);
    CHECK(own == other);
    CHECK(state_of(*restored) == bytes);
    fast = std::move(restored);
  }
}

TEST_CASE("bandits: a zero record advances the clock of the noise and adds nothing") {
  auto absent = make(2, 1, 0.0);
  auto noisy = make(2, 1);
  const double huge[] = {3e200, -4e200, 0.0};
  const double broken[] = {0.1, kMissing, 0.3};
  for (auto* learner : {absent.get(), noisy.get()}) {
    learner->decide(0, huge);
    learner->observe(0, kMissing);
    learner->decide(1, broken);
    learner->observe(1, 1.0);
    CHECK(learner->sum().round() == 2);
    for (const double value : learner->sum().nonprivate_sum()) CHECK(value == 0.0);
    CHECK(learner->nonprivate_violations() == 3);
  }
  absent->decide(2, huge);
  absent->observe(2, 7.0);  // clipped to 1, the context to (0.6, -0.8, 0)
  const std::vector<double>& sum = absent->sum().nonprivate_sum();
  const double want[] = {0.36, -0.48 * std::sqrt(2.0), 0.0, 0.64, 0.0, 0.0, 1.3 * 0.6, -1.3 * 0.8};
  for (std::size_t i = 0; i < 8; ++i) CHECK(sum[i] == doctest::Approx(want[i]));
}

TEST_CASE("bandits: a matrix that noise has made indefinite still has a decision") {
  auto learner = make(3, 1, 1e6);
  const std::vector<double> contexts = drawn(kRounds * kDimension, 5);
  const std::vector<double> rewards = drawn(kRounds * 3, 6);
  std::vector<std::int64_t> chosen(kRounds);
  std::vector<double> own(kRounds);
  learner->run(learner->enter(), contexts, rewards, chosen, own);
  std::vector<double> coefficients(3 * kDimension);
  learner->coefficients(coefficients);
  for (const double value : coefficients) CHECK(std::isfinite(value));
}

TEST_CASE("bandits: a log is replayed event by event") {
  const std::vector<double> contexts = drawn(kRounds * kDimension, 7);
  const std::vector<double> rewards = drawn(kRounds, 8);
  std::vector<std::int64_t> actions(kRounds);
  for (std::size_t t = 0; t < kRounds; ++t) actions[t] = static_cast<std::int64_t>(t % 3);
  auto replayed = make(3, 1, 0.5, 9);
  std::vector<std::int64_t> chosen(kRounds, -1);
  const std::uint64_t read =
      replayed->replay(replayed->enter(), contexts, actions, rewards, chosen);
  auto single = make(3, 1, 0.5, 9);
  for (std::uint64_t t = 0; t < read; ++t) {
    std::int64_t arm = -1;
    single->recommend(single->enter(), row(contexts, t), {&arm, 1});
    CHECK(arm == chosen[t]);
    if (arm != actions[t]) continue;
    single->decide(single->round(), row(contexts, t));
    single->observe(single->round(), rewards[t]);
  }
  CHECK(state_of(*single) == state_of(*replayed));
  CHECK((read == kRounds || replayed->round() == 9));
}
