// The compiled learner: no allocation per round, one thread at a time, exact state.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"

namespace {
std::atomic<std::size_t> allocations{0};
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // the pair below matches
#endif
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace dpoco;
using frank_wolfe::FrankWolfe;
using mechanisms::ContinualSum;
using random::Key;
using random::Source;

namespace {

constexpr Index kDimension = 11;
constexpr std::uint64_t kRounds = 200;

std::unique_ptr<FrankWolfe> make(double p, const char* method, std::uint64_t batch = 1) {
  const mechanisms::NoiseLaw law{std::strcmp(method, "generalized") == 0 ? 3.0 : 2.0, 1.5};
  auto process = std::strcmp(method, "blt") == 0
                     ? mechanisms::make_blt(kDimension, law, {{0.01, 0.2}, {0.03, 0.1}})
                     : mechanisms::make_tree(kDimension, kRounds / batch, law);
  const double q = p == 1.0 ? std::numeric_limits<double>::infinity() : p / (p - 1.0);
  const double no_bound = std::numeric_limits<double>::infinity();
  const std::vector<double> start(static_cast<std::size_t>(kDimension), 0.0);
  const auto ball = std::make_shared<domains::LpBall>(kDimension, p, 1.0);
  const losses::RecordClipper clipper(kDimension, 1.0, q, no_bound);
  return std::make_unique<FrankWolfe>(
      ball, frank_wolfe::LeafRule(losses::GlmLoss{}, clipper, 4.0),
      frank_wolfe::FrankWolfeSettings{.horizon = kRounds, .batch = batch},
      frank_wolfe::make_sum_rule(
          ball, ContinualSum(kDimension, kRounds / batch, std::move(process), law.scale,
                             std::make_unique<Source>(Key{1, 2, 3}, 4))),
      start);
}

struct Stream {
  std::vector<double> features = std::vector<double>(kRounds * kDimension);
  std::vector<double> labels = std::vector<double>(kRounds);
  Stream() {
    Source source(Key{9}, 0);
    source.fill(random::Variate::gaussian, features);
    source.fill(random::Variate::gaussian, labels);
    features[3] = std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace

TEST_CASE("rounds do not allocate, but for a first run of many, which holds some at once") {
  const Stream stream;
  std::vector<double> losses(kRounds);
  std::vector<double> decisions(kRounds * kDimension);
  std::vector<std::uint8_t> changed(kRounds);
  for (const char* method : {"blt", "tree", "generalized"}) {
    for (double p : {1.0, 1.5, 2.0, 4.0}) {
      auto learner = make(p, method);
      const auto play = [&](std::uint64_t first, std::uint64_t rounds) {
        const std::size_t before = allocations;
        learner->run(
            learner->enter(),
            std::span(stream.features).subspan(first * kDimension, rounds * kDimension),
            std::span(stream.labels).subspan(first, rounds), std::span(losses).first(rounds),
            std::span(decisions).first(rounds * kDimension), std::span(changed).first(rounds));
        return allocations - before;
      };
      const std::size_t before = allocations;
      learner->observe(0, std::span(stream.features).first(kDimension), stream.labels[0]);
      CHECK(allocations == before);
      CHECK(play(1, 1) == 0);
      CHECK(play(2, kRounds / 2) <= 2);  // records and noise
      CHECK(play(kRounds / 2 + 2, kRounds / 2 - 2) == 0);
    }
  }
  auto counted = std::make_unique<int>(1);  // the guard itself counts
  const std::size_t before = allocations;
  counted = std::make_unique<int>(2);
  CHECK(allocations == before + 1);
}

TEST_CASE("run equals observe, also through a saved state") {
  const Stream stream;
  for (std::uint64_t batch : {1U, 3U}) {
    auto whole = make(1.5, "blt", batch);
    std::vector<double> decisions(kRounds * kDimension);
    whole->run(whole->enter(), std::span(stream.features).first(kRounds * kDimension),
               std::span(stream.labels).first(kRounds), {},
               std::span(decisions).first(kRounds * kDimension), {});
    auto single = make(1.5, "blt", batch);
    std::vector<double> theta(static_cast<std::size_t>(kDimension));
    for (std::uint64_t t = 0; t < kRounds; ++t) {
      single->decision(theta);
      CHECK(std::memcmp(theta.data(), decisions.data() + t * kDimension,
                        theta.size() * sizeof(double)) == 0);
      single->observe(t, std::span(stream.features).subspan(t * kDimension, kDimension),
                      stream.labels[t]);
      Archive archive;
      single->write(archive);
      const std::string bytes = archive.take();
      auto restored = make(1.5, "blt", batch);
      ArchiveReader reader(bytes);
      restored->read(reader);
      reader.finish();
      single = std::move(restored);
    }
    CHECK(single->round() == kRounds);
  }
}

TEST_CASE("a round that was not decided, or is past the horizon, is refused") {
  const Stream stream;
  auto learner = make(2.0, "tree");
  CHECK_THROWS_AS(learner->observe(1, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  learner->observe(0, std::span(stream.features).first(kDimension), 0.0);
  CHECK_THROWS_AS(learner->observe(0, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  CHECK_THROWS_AS(
      learner->run(learner->enter(), std::span(stream.features).first(kRounds * kDimension),
                   std::span(stream.labels).first(kRounds), {}, {}, {}),
      HorizonExceeded);
  CHECK(learner->round() == 1);
}

TEST_CASE("other threads are refused while the learner runs, and never see half a decision") {
  const Stream stream;
  auto learner = make(2.0, "blt");
  std::atomic<bool> done{false};
  std::atomic<int> seen{0};
  std::thread watcher([&] {
    std::vector<double> theta(static_cast<std::size_t>(kDimension));
    while (!done) {
      try {
        learner->decision(theta);
        Archive archive;
        learner->write(archive);
        ++seen;
      } catch (const RoundOrderError&) {
      }
      if (learner->round() > kRounds) ++seen;
    }
  });
  while (seen == 0) std::this_thread::yield();
  for (std::uint64_t t = 0; t < kRounds; ++t) {
    for (;;) {  // the watcher may hold the learner for a moment
      try {
        learner->run(learner->enter(),
                     std::span(stream.features).subspan(t * kDimension, kDimension),
                     std::span(stream.labels).subspan(t, 1), {}, {}, {});
        break;
      } catch (const RoundOrderError&) {
        std::this_thread::yield();
      }
    }
  }
  done = true;
  watcher.join();
  CHECK(learner->round() == kRounds);
  CHECK(seen > 0);
}
