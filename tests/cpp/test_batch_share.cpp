// The batched share in C++: releases, projection, draws without allocation, exact state.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/domains/floored_simplex.hpp"
#include "dpoco/experts/batch_share.hpp"

using namespace dpoco;
using experts::BatchShare;
using experts::BatchShareSettings;
using mechanisms::AdditiveLaw;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kExperts = 5;
constexpr std::uint64_t kRounds = 40;

BatchShareSettings settings_of(std::uint64_t batch, double share) {
  return {.problem = {.experts = kExperts, .horizon = kRounds, .range = {}},
          .batch = batch,
          .learning_rate = 0.3,
          .share_rate = share};
}

std::unique_ptr<BatchShare> make(AdditiveLaw law, BatchShareSettings settings) {
  const auto dimension = static_cast<Index>(settings.problem.experts);
  return std::make_unique<BatchShare>(settings,
                                      mechanisms::make_additive_noise(law, 2.0, dimension),
                                      std::make_unique<Source>(Key{1, 2}, 3));
}

std::vector<double> losses_of(std::uint64_t rounds, std::uint64_t experts = kExperts) {
  std::vector<double> losses(rounds * experts);
  Source source(Key{5}, 0);
  source.fill(Variate::uniform, losses);
  return losses;
}

}  // namespace

TEST_CASE("an interrupted share goes on bit for bit, and foreign states are refused") {
  const auto losses = losses_of(kRounds);
  for (const auto law : {AdditiveLaw::none, AdditiveLaw::cube_exponential, AdditiveLaw::gaussian,
                         AdditiveLaw::laplace}) {
    for (const double share : {0.0, 0.1}) {
      const auto settings = settings_of(3, share);
      auto whole = make(law, settings);
      auto split = make(law, settings);
      for (std::uint64_t t = 0; t < kRounds; ++t) {
        Archive archive;
        split->write(archive);
        const std::string bytes = archive.take();
        split = make(law, settings);
        ArchiveReader reader(bytes);
        split->read(reader);
        reader.finish();
        CHECK(split->decision() == whole->decision());
        whole->observe(t, std::span(losses).subspan(t * kExperts, kExperts));
        split->observe(t, std::span(losses).subspan(t * kExperts, kExperts));
      }
      Archive archive;
      whole->write(archive);
      const std::string bytes = archive.take();
      auto other = make(law, settings_of(4, share));
      ArchiveReader reader(bytes);
      CHECK_THROWS_AS(other->read(reader), StateError);
      CHECK_THROWS_AS(whole->observe(kRounds, std::span(losses).first(kExperts)), HorizonExceeded);
    }
  }
}

TEST_CASE("variates are drawn once a batch that a round follows") {
  const auto losses = losses_of(kRounds);
  for (const std::uint64_t batch : {1U, 7U, 20U, 39U, 40U, 99U}) {
    auto learner = make(AdditiveLaw::cube_exponential, settings_of(batch, 0.1));
    for (std::uint64_t t = 0; t < kRounds; ++t)
      learner->observe(t, std::span(losses).subspan(t * kExperts, kExperts));
    const std::uint64_t releases = (kRounds - 1) / batch;
    CHECK(learner->source().position(Variate::exponential) == releases * (kExperts + 1));
    CHECK(learner->source().position(Variate::uniform) == releases * kExperts + kRounds);
  }
  auto single = make(AdditiveLaw::gaussian,
                     {.problem = {.experts = 1, .horizon = kRounds, .range = {}}, .batch = 2});
  for (std::uint64_t t = 0; t < kRounds; ++t) single->observe(t, std::span(losses).first(1));
  for (const auto kind : {Variate::uniform, Variate::gaussian}) {
    CHECK(single->source().position(kind) == 0);
  }
}

TEST_CASE("projection onto the floored simplex") {
  const double minus = -std::numeric_limits<double>::infinity();
  std::vector<double> log_v{std::log(0.5), std::log(0.3), std::log(0.15), std::log(0.04), minus};
  std::vector<double> scratch(5);
  std::vector<double> w(5);
  domains::project_floored_simplex(log_v, 0.05, scratch, w);
  CHECK(w[0] == doctest::Approx(0.5 * 0.9 / 0.95));
  CHECK(w[3] == 0.05);
  CHECK(w[4] == 0.05);
  domains::project_floored_simplex(log_v, 0.2, scratch, w);
  for (const double weight : w) CHECK(weight == doctest::Approx(0.2));
}

TEST_CASE("bad settings are refused") {
  const auto refused = [](BatchShareSettings settings) {
    CHECK_THROWS_AS(make(AdditiveLaw::none, settings), std::invalid_argument);
  };
  refused(settings_of(0, 0.1));
  refused(settings_of(1, 0.9));
  refused(settings_of(1, std::numeric_limits<double>::quiet_NaN()));
  auto rate = settings_of(1, 0.1);
  rate.learning_rate = 0.0;
  refused(rate);
  auto floor = settings_of(1, 0.1);
  floor.floor = 0.1;  // beside a share
  refused(floor);
  CHECK_THROWS_AS(mechanisms::make_additive_noise(AdditiveLaw::laplace, 0.0, 3),
                  std::invalid_argument);
}
