// Micro-benchmarks of the core, once per instruction set of this machine.
// Usage: dpoco_bench [milliseconds per epoch, default 5]; see bench/README.md.

#define ANKERL_NANOBENCH_IMPLEMENT
#include <nanobench.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dpoco/domains/body.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/domains/norms.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/noise_process.hpp"
#include "dpoco/noise/samplers.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/gibbs.hpp"
#include "dpoco/simd/kernels.hpp"

namespace {

using ankerl::nanobench::Bench;
using ankerl::nanobench::doNotOptimizeAway;
using dpoco::Index;
using dpoco::domains::LpBall;
using dpoco::frank_wolfe::FrankWolfe;
using dpoco::frank_wolfe::FrankWolfeSettings;
using dpoco::frank_wolfe::LeafRule;
using dpoco::losses::GlmKind;
using dpoco::losses::GlmLoss;
using dpoco::losses::RecordClipper;
using dpoco::mechanisms::ContinualSum;
using dpoco::mechanisms::NoiseLaw;
using dpoco::mechanisms::NoiseProcess;
using dpoco::random::Key;
using dpoco::random::Source;
using dpoco::random::Variate;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kHorizon = 1ULL << 40;  // no benchmark comes near it
constexpr std::size_t kVariates = 2048;         // per fill: 16 KiB, inside the first-level cache
constexpr std::size_t kRows = 64;               // inputs in turn, so that branches are not learnt
constexpr std::uint64_t kToeplitzRounds = 256;  // its cost grows with the round

// Fixed, so that runs are comparable.
constexpr NoiseLaw kLaw = {2.0, 10.0};
constexpr Key kKey = {1, 2, 3, 4, 5, 6, 7, 8};

Bench table(const std::string& title, const std::string& unit, std::chrono::milliseconds epoch) {
  Bench bench;
  bench.title(title).unit(unit).minEpochTime(epoch).performanceCounters(true);
  return bench;
}

std::string in_dimension(const std::string& name, Index d) {
  return name + ", d = " + std::to_string(d);
}

std::string with_exponent(const std::string& name, double p, Index d) {
  std::string text = std::isinf(p) ? "inf" : std::to_string(p).substr(0, 3);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return in_dimension(name + " p = " + text, d);
}

// kRows vectors, each scaled to l_order norm `length`.
class Rows {
 public:
  Rows(Index d, double order, double length)
      : d_(static_cast<std::size_t>(d)), values_(kRows * d_) {
    Source source(kKey, 1);
    source.fill(Variate::gaussian, values_);
    for (std::size_t row = 0; row < kRows; ++row) {
      double* x = values_.data() + row * d_;
      const double factor = length / dpoco::domains::norm({x, d_}, order);
      for (std::size_t i = 0; i < d_; ++i) x[i] *= factor;
    }
  }

  std::span<const double> next() {
    at_ = (at_ + 1) % kRows;
    return std::span(values_).subspan(at_ * d_, d_);
  }

 private:
  std::size_t d_;
  std::size_t at_ = 0;
  std::vector<double> values_;
};

// ---- noise --------------------------------------------------------------------------------------

void bench_noise(const std::string& set, std::chrono::milliseconds epoch) {
  Bench bench = table("noise, " + set, "variate", epoch);
  Source source(kKey, 0);
  std::vector<double> out(kVariates);
  std::vector<std::uint64_t> words(kVariates);

  bench.batch(kVariates).run("key stream words", [&] {
    const dpoco::simd::Position start{kKey.data(), 0, 0};
    dpoco::simd::kernels().words(start, kVariates / dpoco::simd::kSuperblock, words.data());
    doNotOptimizeAway(words.data());
  });
  const std::array<std::pair<const char*, Variate>, 5> kinds = {
      {{"uniform", Variate::uniform},
       {"Gaussian", Variate::gaussian},
       {"Laplace", Variate::laplace},
       {"exponential", Variate::exponential},
       {"Gumbel", Variate::gumbel}}};
  for (const auto& [name, kind] : kinds) {
    bench.run(name, [&, variate = kind] {
      source.fill(variate, out);
      doNotOptimizeAway(out.data());
    });
  }
  bench.batch(1).run("gamma(5.5)", [&] { doNotOptimizeAway(dpoco::noise::gamma(source, 5.5)); });
  constexpr Index kDimension = 10;
  dpoco::noise::GeneralizedGaussian generalized(kDimension, 3.0, 1.0);
  bench.batch(kDimension).run("generalized Gaussian r = 3, d = 10", [&] {
    generalized.sample(source, out);
    doNotOptimizeAway(out.data());
  });
}

// ---- continual sums -----------------------------------------------------------------------------

// The shipped factorisation for a horizon of 1e6.
std::unique_ptr<NoiseProcess> make_blt(Index d) {
  dpoco::mechanisms::BltParameters parameters;
  parameters.decay = {1.228577e-6, 3.2192478e-5, 6.06912951e-4, 1.1317580458e-2, 1.92308969831e-1};
  parameters.omega = {0.0015732736, 0.0053055006, 0.022858327, 0.097662454, 0.3288874};
  return dpoco::mechanisms::make_blt(d, kLaw, std::move(parameters));
}

ContinualSum make_sum(Index d, std::unique_ptr<NoiseProcess> process, std::uint64_t horizon,
                      std::optional<RecordClipper> clipper) {
  return {d,
          horizon,
          std::move(process),
          kLaw.scale,
          std::make_unique<Source>(kKey, 2),
          std::move(clipper)};
}

void bench_sums(const std::string& set, std::chrono::milliseconds epoch) {
  Bench bench = table("ContinualSum.push, " + set, "round", epoch);
  for (const Index d : {1, 10, 100, 1000}) {
    Rows rows(d, 2.0, 0.9);
    const RecordClipper clipper(d, 1.0, 2.0);
    std::vector<double> out(static_cast<std::size_t>(d));
    const auto push = [&](const char* name, std::unique_ptr<NoiseProcess> process) {
      ContinualSum sum = make_sum(d, std::move(process), kHorizon, clipper);
      bench.batch(1).run(in_dimension(name, d), [&] {
        sum.push(rows.next(), out);
        doNotOptimizeAway(out.data());
      });
    };
    push("blt", make_blt(d));
    push("tree", dpoco::mechanisms::make_tree(d, kHorizon, kLaw));
    bench.batch(kToeplitzRounds).run(in_dimension("toeplitz, mean of rounds 1 to 256", d), [&] {
      ContinualSum sum = make_sum(d, dpoco::mechanisms::make_toeplitz(d, kToeplitzRounds, kLaw),
                                  kToeplitzRounds, clipper);
      for (std::uint64_t t = 0; t < kToeplitzRounds; ++t) sum.push(rows.next(), out);
      doNotOptimizeAway(out.data());
    });
  }
}

// ---- domains ------------------------------------------------------------------------------------

void bench_domains(const std::string& set, std::chrono::milliseconds epoch) {
  Bench bench = table("LpBall, " + set, "call", epoch);
  for (const Index d : {10, 1000}) {
    for (const double p : {1.0, 1.5, 2.0, 3.0, kInfinity}) {
      const LpBall ball(d, p, 1.0);
      Rows rows(d, p, 2.0);  // outside: every projection has work to do
      std::vector<double> out(static_cast<std::size_t>(d));
      bench.run(with_exponent("minimize_linear", p, d), [&] {
        ball.minimize_linear(rows.next(), out);
        doNotOptimizeAway(out.data());
      });
      bench.run(with_exponent("project", p, d), [&] {
        ball.project(rows.next(), out);
        doNotOptimizeAway(out.data());
      });
    }
  }
}

// ---- learners -----------------------------------------------------------------------------------

void bench_learners(const std::string& set, std::chrono::milliseconds epoch) {
  Bench bench = table("TreeFrankWolfe.observe (logistic, blt), " + set, "round", epoch);
  for (const Index d : {10, 1000}) {
    for (const double p : {1.5, 2.0, kInfinity}) {
      const double q = std::isinf(p) ? 1.0 : p / (p - 1.0);
      const GlmLoss loss{.kind = GlmKind::logistic, .label_low = 0.0, .label_high = 1.0};
      const std::vector<double> start(static_cast<std::size_t>(d), 0.0);
      const auto ball = std::make_shared<LpBall>(d, p, 1.0);
      FrankWolfe learner(
          ball, LeafRule(loss, RecordClipper(d, 1.0, q), 2.0),
          FrankWolfeSettings{.horizon = kHorizon},
          dpoco::frank_wolfe::make_sum_rule(ball, make_sum(d, make_blt(d), kHorizon, std::nullopt)),
          start);
      Rows rows(d, q, 0.9);
      double label = 0.0;
      bench.run(with_exponent("observe", p, d), [&] {
        label = 1.0 - label;
        learner.observe(learner.round(), rows.next(), label);
        doNotOptimizeAway(learner.round());
      });
    }
  }
}

// ---- Gibbs laws ---------------------------------------------------------------------------------

// Steps of the chains, one state after the other, and exact draws that each find the mode first.
void bench_gibbs(const std::string& set, std::chrono::milliseconds epoch) {
  Bench bench = table("Gibbs laws (100 logistic losses), " + set, "step", epoch);
  using dpoco::samplers::GibbsChain;
  constexpr double kRegularization = 10.0;
  constexpr int kLosses = 100;
  for (const Index d : {5, 50}) {
    const auto body = dpoco::domains::Body::of(std::make_shared<LpBall>(d, 2.0, 1.0), false);
    const GlmLoss loss{.kind = GlmKind::logistic, .label_low = 0.0, .label_high = 1.0};
    const auto sum = dpoco::losses::make_glm_sum(body, loss, RecordClipper(d, 1.0, 2.0));
    Rows rows(d, 2.0, 0.9);
    for (int i = 0; i < kLosses; ++i) {
      sum->stage_record(rows.next(), i % 2);
      sum->commit();
    }
    Source source(kKey, 3);
    std::vector<double> out(static_cast<std::size_t>(d));
    const std::array<std::pair<const char*, GibbsChain>, 3> chains = {
        {{"hit-and-run", GibbsChain::hit_and_run},
         {"Metropolis-adjusted Langevin", GibbsChain::langevin},
         {"proximal", GibbsChain::proximal}}};
    for (const auto& [name, chain] : chains) {
      dpoco::samplers::GibbsSampler sampler(
          body, {.regularization = kRegularization, .chain = chain, .lipschitz = kLosses});
      dpoco::samplers::ChainState state;
      bench.batch(kVariates).run(in_dimension(name, d), [&] {
        sampler.walk(source, *sum, kVariates, state, out);
        doNotOptimizeAway(out.data());
      });
    }
    dpoco::samplers::GibbsSampler exact(body, {.regularization = kRegularization});
    bench.batch(1).run(in_dimension("exact draw", d), [&] {
      exact.sample(source, *sum, out);
      doNotOptimizeAway(out.data());
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int requested = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::chrono::milliseconds epoch(requested > 0 ? requested : 5);
  for (const std::string set : {"baseline", "avx2", "avx512"}) {
    try {
      dpoco::simd::select(set);
    } catch (const std::invalid_argument&) {
      continue;  // not on this machine
    }
    bench_noise(set, epoch);
    bench_sums(set, epoch);
    bench_domains(set, epoch);
    bench_learners(set, epoch);
    bench_gibbs(set, epoch);
  }
  return 0;
}
