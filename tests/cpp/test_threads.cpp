// What may be shared between threads, for ThreadSanitizer to watch: constants, domains, losses,
// counters and guards. One engine is one thread's at a time: a second one is refused.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/experts/prefix_hedge.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/simd/kernels.hpp"

using namespace dpoco;
using experts::PrefixHedge;
using frank_wolfe::FrankWolfe;
using mechanisms::ContinualSum;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr Index kDimension = 6;
constexpr std::uint64_t kRounds = 400;
constexpr unsigned kThreads = 4;

// Runs work(0) ... work(kThreads - 1) at once.
void together(const std::function<void(unsigned)>& work) {
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<FrankWolfe> learner(const std::shared_ptr<const domains::Domain>& domain,
                                    std::uint32_t key) {
  const mechanisms::NoiseLaw law{2.0, 1.5};
  const std::vector<double> start(static_cast<std::size_t>(kDimension), 0.0);
  ContinualSum sum(kDimension, kRounds, mechanisms::make_tree(kDimension, kRounds, law), law.scale,
                   std::make_unique<Source>(Key{key}, 0));
  return std::make_unique<FrankWolfe>(
      domain,
      frank_wolfe::LeafRule(losses::GlmLoss{}, losses::RecordClipper(kDimension, 1.0, 2.0), 4.0),
      frank_wolfe::FrankWolfeSettings{.horizon = kRounds},
      frank_wolfe::make_sum_rule(domain, std::move(sum)), start);
}

std::unique_ptr<PrefixHedge> hedge(std::uint32_t key) {
  const mechanisms::NoiseLaw law{2.0, 1.5};
  return std::make_unique<PrefixHedge>(
      experts::ExpertSettings{kDimension, kRounds, {0.0, 1.0}}, 0.3,
      ContinualSum(kDimension, kRounds - 1,
                   mechanisms::make_blt(kDimension, law, {{0.01, 0.2}, {0.03, 0.1}}), law.scale,
                   std::make_unique<Source>(Key{key}, 0)),
      nullptr);
}

std::vector<double> stream() {
  std::vector<double> values(kRounds * kDimension);
  Source source(Key{5}, 0);
  source.fill(Variate::gaussian, values);
  return values;
}

}  // namespace

TEST_CASE("learners of one domain and one stream run in several threads, each as if alone") {
  const auto ball = std::make_shared<domains::LpBall>(kDimension, 2.0, 1.0);
  const std::vector<double> features = stream();
  const std::vector<double> labels(kRounds, 0.5);
  const auto play = [&](FrankWolfe& one) {
    std::vector<double> lost(kRounds);
    std::vector<double> decisions(kRounds * kDimension);
    std::vector<std::uint8_t> changed(kRounds);
    one.run(one.enter(), std::span(features).first(kRounds * kDimension),
            std::span(labels).first(kRounds), std::span(lost).first(kRounds),
            std::span(decisions).first(kRounds * kDimension), std::span(changed).first(kRounds));
    return decisions;
  };
  std::vector<std::vector<double>> found(kThreads);
  together([&](unsigned i) { found[i] = play(*learner(ball, i)); });
  for (unsigned i = 0; i < kThreads; ++i) CHECK(found[i] == play(*learner(ball, i)));
}

TEST_CASE("two threads in one learner: a round is whole or refused, and so is a saved state") {
  const auto shared = hedge(3);
  const std::vector<double> losses = stream();
  std::atomic<std::uint64_t> played{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<bool> unsound{false};
  together([&](unsigned i) {
    // On a busy machine one thread may be inside for as long as others call sixty times.
    for (int call = 0; call < 60 || (i > 1 && played == 0 && call < 1'000'000); ++call) {
      try {
        const std::uint64_t round = shared->round();  // any thread may read it
        if (i == 0) {
          Archive archive;
          shared->write(archive);
          const std::string bytes = archive.take();
          ArchiveReader reader(bytes);
          hedge(3)->read(reader);
          reader.finish();
        } else if (i == 1) {
          if (shared->decision() >= shared->experts()) unsound = true;
        } else if (call % 2 == 0) {
          shared->observe(round, std::span(losses).first(shared->experts()));
          ++played;
        } else {
          double own[2];
          std::int64_t decisions[2];
          shared->run(shared->enter(), std::span(losses).first(2 * shared->experts()), own,
                      decisions);
          played += 2;
        }
      } catch (const RoundOrderError&) {
        ++refused;
        std::this_thread::yield();
      } catch (const StateError&) {
        unsound = true;
      }
    }
  });
  CHECK_FALSE(unsound);
  CHECK(played == shared->round());
  CHECK(played > 0);
  const Exclusive::Entry entry = shared->enter();
  CHECK_THROWS_AS(shared->decision(), RoundOrderError);
}

TEST_CASE("the instruction set may change while others compute") {
  const std::vector<double> x = stream();
  const double expected = simd::kernels().dot(x.data(), x.data(), x.size());
  std::atomic<bool> differs{false};
  together([&](unsigned i) {
    for (int call = 0; call < 200; ++call) {
      if (i == 0) {
        simd::select(call % 2 == 0 ? "baseline" : "auto");
      } else if (simd::kernels().dot(x.data(), x.data(), x.size()) != expected) {
        differs = true;
      }
    }
  });
  simd::select("auto");
  CHECK_FALSE(differs);
}

TEST_CASE("domains are constants: oracles and projections from many threads") {
  const auto ball = std::make_shared<domains::LpBall>(kDimension, 1.5, 1.0);
  const auto box = std::make_shared<domains::Box>(Vector::Constant(kDimension, -1.0),
                                                  Vector::Constant(kDimension, 1.0));
  const auto simplex = std::make_shared<domains::Simplex>(kDimension, 1.0);
  const std::vector<double> rows = stream();
  std::atomic<bool> outside{false};
  together([&](unsigned i) {
    for (std::uint64_t t = i; t < kRounds; t += kThreads) {
      for (const std::shared_ptr<const domains::Domain>& domain :
           std::vector<std::shared_ptr<const domains::Domain>>{ball, box, simplex}) {
        const auto x = std::span(rows).subspan(t * kDimension, kDimension);
        std::vector<double> out(static_cast<std::size_t>(kDimension));
        domain->project(x, out);
        if (!domain->contains(out, 1e-9)) outside = true;
        domain->minimize_linear(x, out);
        if (!domain->contains(out, 1e-9)) outside = true;
      }
    }
  });
  CHECK_FALSE(outside);
}
