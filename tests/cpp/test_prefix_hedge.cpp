// Hedge on noisy sums: long runs equal single rounds, with and without a transform, exact state.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/experts/prefix_hedge.hpp"

using namespace dpoco;
using experts::LinearTransform;
using experts::PrefixHedge;
using mechanisms::ContinualSum;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kRounds = 70;

// Differences of neighbours, clipped to [-0.5, 0.5]; the inverse is a running sum from 0.
class Increments final : public LinearTransform {
 public:
  explicit Increments(std::size_t n) : n_(n) {}
  std::size_t inputs() const noexcept override { return n_; }
  std::size_t outputs() const noexcept override { return n_ - 1; }
  std::size_t apply(std::span<const double> losses, std::span<double> out) override {
    std::size_t changed = 0;
    for (std::size_t i = 0; i + 1 < n_; ++i) {
      const double step = losses[i + 1] - losses[i];
      out[i] = std::isfinite(step) ? std::fmax(-0.5, std::fmin(0.5, step)) : 0.0;
      if (out[i] != step) ++changed;
    }
    return changed;
  }
  void invert(std::span<const double> sums, std::span<double> out) override {
    out[0] = 0.0;
    for (std::size_t i = 0; i + 1 < n_; ++i) out[i + 1] = out[i] + sums[i];
  }

 private:
  std::size_t n_;
};

std::unique_ptr<PrefixHedge> make(std::uint64_t n, bool transformed = false, double scale = 2.0,
                                  std::uint64_t rounds = kRounds) {
  const auto entries = static_cast<Index>(transformed ? n - 1 : n);
  const mechanisms::NoiseLaw law{2.0, scale};
  auto noise = scale > 0.0 ? mechanisms::make_blt(entries, law, {{0.01, 0.2}, {0.03, 0.1}})
                           : mechanisms::make_silence(entries);
  return std::make_unique<PrefixHedge>(
      experts::ExpertSettings{n, rounds, {-1.0, 3.0}}, 0.3,
      ContinualSum(entries, std::max<std::uint64_t>(rounds - 1, 1), std::move(noise), scale,
                   std::make_unique<Source>(Key{1, 2, 3}, 4)),
      transformed ? std::make_shared<Increments>(n) : nullptr);
}

std::vector<double> losses_of(std::uint64_t n) {
  std::vector<double> losses(kRounds * n);
  Source source(Key{9}, n);
  source.fill(Variate::gaussian, losses);
  losses[3 % n] = std::numeric_limits<double>::quiet_NaN();
  losses[kRounds * n / 2] = 1e300;
  return losses;
}

std::string state_of(const PrefixHedge& learner) {
  Archive archive;
  learner.write(archive);
  return archive.take();
}

bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("a long run equals single rounds, also through a saved state") {
  for (const bool transformed : {false, true}) {
    for (const std::uint64_t n : {2U, 7U, 100U, 3000U}) {
      const std::vector<double> losses = losses_of(n);
      auto whole = make(n, transformed);
      std::vector<double> own(kRounds);
      std::vector<std::int64_t> played(kRounds);
      for (std::uint64_t t = 0, count = 1; t < kRounds; t += count, count = 2 * count + 1) {
        count = std::min(count, kRounds - t);
        whole->run(whole->enter(), std::span(losses).subspan(t * n, count * n),
                   std::span(own).subspan(t, count), std::span(played).subspan(t, count));
      }
      auto single = make(n, transformed);
      for (std::uint64_t t = 0; t < kRounds; ++t) {
        CHECK(single->decision() == static_cast<std::uint64_t>(played[t]));
        const double lost = losses[t * n + single->decision()];
        if (transformed) {
          CHECK(same(own[t], lost));
        } else if (std::isfinite(lost)) {
          CHECK(own[t] == doctest::Approx((std::fmax(-1.0, std::fmin(3.0, lost)) + 1.0) / 4.0));
        } else {
          CHECK(own[t] == 0.0);
        }
        single->observe(t, std::span(losses).subspan(t * n, n));
        const std::string bytes = state_of(*single);
        auto restored = make(n, transformed);
        ArchiveReader reader(bytes);
        restored->read(reader);
        reader.finish();
        CHECK(state_of(*restored) == bytes);
        single = std::move(restored);
      }
      CHECK(state_of(*whole) == state_of(*single));
      CHECK(whole->nonprivate_violations() > 0);
      CHECK(whole->sum().round() == kRounds - 1);
      CHECK(whole->source().position(Variate::uniform) == kRounds);
      CHECK_THROWS_AS(whole->observe(kRounds, std::span(losses).first(n)), HorizonExceeded);
    }
  }
}

TEST_CASE("what a round adds has no mean, and a transform's rows are its own") {
  const std::vector<double> losses = {-5.0, 0.0, 1.0, std::nan(""), 3.0};
  std::vector<double> leaf(5), weights(5);
  auto learner = make(5, false, 0.0);
  learner->leaf(losses, leaf);
  const double expected[] = {-0.35, -0.1, 0.15, -0.35, 0.65};
  for (std::size_t i = 0; i < 5; ++i) CHECK(leaf[i] == doctest::Approx(expected[i]));
  learner->observe(0, losses);
  learner->weights(weights);
  double sum = 0.0;
  for (std::size_t i = 0; i < 5; ++i) sum += weights[i];
  CHECK(sum == doctest::Approx(1.0));
  CHECK(weights[1] / weights[0] == doctest::Approx(std::exp(-0.3 * 0.25)));

  auto transformed = make(5, true, 0.0);
  CHECK(transformed->transform() != nullptr);
  leaf.resize(4);
  transformed->leaf(losses, leaf);
  CHECK(leaf[0] == 0.5);
  CHECK(leaf[2] == 0.0);
  transformed->observe(0, losses);
  CHECK(transformed->nonprivate_violations() == 4);  // 5, 1 and two differences of NaN
  transformed->weights(weights);
  CHECK(weights[1] / weights[0] == doctest::Approx(std::exp(-0.3 * 0.5)));
}

TEST_CASE("one expert, one round") {
  auto lonely = make(1);
  const double loss = 0.5;
  for (std::uint64_t t = 0; t < kRounds; ++t) lonely->observe(t, {&loss, 1});
  CHECK(lonely->decision() == 0);
  CHECK(lonely->source().position(Variate::gaussian) == 0);
  CHECK(lonely->source().position(Variate::uniform) == 0);
  auto brief = make(2, false, 1.0, 1);
  const double losses[] = {0.0, 1.0};
  brief->observe(0, losses);
  CHECK(brief->source().position(Variate::gaussian) == 0);
  CHECK_THROWS_AS(brief->observe(1, losses), HorizonExceeded);
}

TEST_CASE("one thread at a time, sizes that fit") {
  auto learner = make(3);
  const std::vector<double> losses = {0.1, 0.2, 0.3};
  std::vector<double> out(3);
  {
    const auto entry = learner->enter();
    CHECK_THROWS_AS(learner->observe(0, losses), RoundOrderError);
    CHECK_THROWS_AS(learner->weights(out), RoundOrderError);
    CHECK_THROWS_AS(learner->leaf(losses, out), RoundOrderError);
  }
  CHECK_THROWS_AS(learner->observe(1, losses), RoundOrderError);
  const auto build = [](std::uint64_t n, Index entries, std::uint64_t pushes, double rate,
                        std::shared_ptr<LinearTransform> transform) {
    PrefixHedge built({n, 10, {}}, rate,
                      ContinualSum(entries, pushes, mechanisms::make_silence(entries), 0.0,
                                   std::make_unique<Source>(Key{}, 0)),
                      std::move(transform));
  };
  const auto increments = std::make_shared<Increments>(3);
  CHECK_NOTHROW(build(3, 3, 9, 1.0, nullptr));
  CHECK_NOTHROW(build(3, 2, 9, 1.0, increments));
  CHECK_THROWS_AS(build(3, 2, 9, 1.0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(build(3, 3, 9, 1.0, increments), std::invalid_argument);
  CHECK_THROWS_AS(build(4, 2, 9, 1.0, increments), std::invalid_argument);
  CHECK_THROWS_AS(build(3, 3, 8, 1.0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(build(3, 3, 9, 0.0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(build(3, 3, 9, std::nan(""), nullptr), std::invalid_argument);
}
