// The compiled leader on noisy sums: its quadratic subproblem, one thread at a time, exact state.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/oco/noisy_ftrl.hpp"

using namespace dpoco;
using mechanisms::ContinualSum;
using oco::NoisyFtrl;
using oco::QuadraticLeader;
using oco::Statistics;
using random::Key;
using random::Source;

namespace {

constexpr Index kDimension = 7;
constexpr std::uint64_t kRounds = 150;

std::shared_ptr<const domains::Domain> domain_of(int kind) {
  if (kind == 0) return std::make_shared<domains::LpBall>(kDimension, 2.0, 1.0);
  if (kind == 1) return std::make_shared<domains::LpBall>(kDimension, 1.5, 1.0);
  if (kind == 2) return std::make_shared<domains::Simplex>(kDimension, 1.0);
  return std::make_shared<domains::Box>(Vector::Constant(kDimension, -0.5),
                                        Vector::Constant(kDimension, 1.0));
}

std::unique_ptr<NoisyFtrl> make(int kind, Statistics statistics, std::uint64_t batch = 1) {
  const auto entries = static_cast<Index>(
      NoisyFtrl::sum_dimension(static_cast<std::size_t>(kDimension), statistics));
  const mechanisms::NoiseLaw law{2.0, 1.5};
  const oco::NoisyFtrlSettings settings{.horizon = kRounds,
                                        .batches = {.first = batch},
                                        .statistics = statistics,
                                        .scalar_bound = 4.0,
                                        .vector_scale = 0.8};
  std::unique_ptr<oco::DecisionRule> rule;
  if (statistics == Statistics::gradient) {
    rule = std::make_unique<oco::ProjectedStep>(domain_of(kind), 0.05);
  } else {
    oco::RidgeSettings ridge;
    ridge.vector_scale = settings.vector_scale;
    ridge.ridges.assign(kRounds, 5.0);
    ridge.shrinkage = 0.01;
    rule = std::make_unique<oco::RidgeRule>(domain_of(kind), kRounds / batch, std::move(ridge));
  }
  return std::make_unique<NoisyFtrl>(
      losses::GlmLoss{}, losses::RecordClipper(kDimension, 1.0, 2.0), settings,
      ContinualSum(entries, kRounds / batch,
                   mechanisms::make_blt(entries, law, {{0.01, 0.2}, {0.03, 0.1}}), law.scale,
                   std::make_unique<Source>(Key{1, 2, 3}, 4)),
      std::move(rule));
}

struct Stream {
  std::vector<double> features = std::vector<double>(kRounds * kDimension);
  std::vector<double> labels = std::vector<double>(kRounds);
  Stream() {
    Source source(Key{9}, 0);
    source.fill(random::Variate::gaussian, features);
    source.fill(random::Variate::gaussian, labels);
    features[3] = std::numeric_limits<double>::quiet_NaN();
    features[8] = 1e300;
    labels[5] = std::numeric_limits<double>::infinity();
  }
};

std::string state_of(const NoisyFtrl& learner) {
  Archive archive;
  learner.write(archive);
  return archive.take();
}

// Packed statistics of the matrix sum_e values_e v_e v_e' for orthonormal v_e, and of a vector.
struct Problem {
  std::vector<double> basis, values, linear, packed;

  explicit Problem(std::uint64_t seed, double low) {
    const auto n = static_cast<std::size_t>(kDimension);
    Source source(Key{static_cast<std::uint32_t>(seed)}, 1);
    basis.resize(n * n);
    values.resize(n);
    linear.resize(n);
    source.fill(random::Variate::gaussian, basis);
    source.fill(random::Variate::uniform, values);
    source.fill(random::Variate::gaussian, linear);
    for (std::size_t e = 0; e < n; ++e) {
      values[e] = low + (5.0 - low) * values[e];
      double* own = basis.data() + e * n;
      for (int pass = 0; pass < 2; ++pass) {  // Gram-Schmidt, twice
        for (std::size_t f = 0; f < e; ++f) {
          const double* other = basis.data() + f * n;
          double inner = 0.0;
          for (std::size_t i = 0; i < n; ++i) inner += own[i] * other[i];
          for (std::size_t i = 0; i < n; ++i) own[i] -= inner * other[i];
        }
        double square = 0.0;
        for (std::size_t i = 0; i < n; ++i) square += own[i] * own[i];
        for (std::size_t i = 0; i < n; ++i) own[i] /= std::sqrt(square);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) {
        packed.push_back((i == j ? 1.0 : kSqrtTwo) * entry(i, j, false));
      }
    }
    for (std::size_t i = 0; i < n; ++i) packed.push_back(0.8 * linear[i]);
  }

  double entry(std::size_t i, std::size_t j, bool floored) const {
    const auto n = static_cast<std::size_t>(kDimension);
    double sum = 0.0;
    for (std::size_t e = 0; e < n; ++e) {
      const double value = floored ? std::fmax(values[e], 0.0) : values[e];
      sum += value * basis[e * n + i] * basis[e * n + j];
    }
    return sum;
  }

  // Distance from x to the projected gradient step from x: zero at the minimiser alone.
  double residual(const domains::Domain& domain, double ridge, const std::vector<double>& x) const {
    const auto n = static_cast<std::size_t>(kDimension);
    std::vector<double> center(n), moved(n), projected(n);
    domain.center(center);
    for (std::size_t i = 0; i < n; ++i) {
      double slope = -linear[i] + ridge * (x[i] - center[i]);
      for (std::size_t j = 0; j < n; ++j) slope += entry(i, j, true) * x[j];
      moved[i] = x[i] - slope / (5.0 + ridge);
    }
    domain.project(moved, projected);
    double worst = 0.0;
    for (std::size_t i = 0; i < n; ++i) worst = std::fmax(worst, std::fabs(projected[i] - x[i]));
    return worst;
  }
};

}  // namespace

TEST_CASE("the quadratic leader is the minimiser, also for indefinite matrices") {
  const auto n = static_cast<std::size_t>(kDimension);
  for (int kind = 0; kind < 4; ++kind) {
    const auto domain = domain_of(kind);
    QuadraticLeader leader(domain, 1.0);
    for (const double ridge : {100.0, 1.0, 1e-3}) {
      for (const double low : {-4.0, 0.5}) {
        for (std::uint64_t seed = 1; seed < 12; ++seed) {
          const Problem problem(seed, low);
          std::vector<double> x(n);
          domain->center(x);
          leader.minimize(problem.packed, 0.8, ridge, x);
          CHECK(domain->contains(x, 1e-12));
          CHECK(problem.residual(*domain, ridge, x) < 1e-13);
        }
      }
    }
  }
}

TEST_CASE("degenerate quadratics") {
  const auto n = static_cast<std::size_t>(kDimension);
  for (int kind = 0; kind < 4; ++kind) {
    const auto domain = domain_of(kind);
    QuadraticLeader leader(domain, 1.0);
    std::vector<double> center(n);
    domain->center(center);
    for (const double scale : {0.0, -1.0, 1e-300, 1e90}) {
      std::vector<double> packed(packed_size(n) + n, scale);
      std::vector<double> x(center);
      leader.minimize(packed, 1.0, 1.0, x);
      CHECK(domain->contains(x, 1e-9));
      if (scale == 0.0) {
        for (std::size_t i = 0; i < n; ++i) CHECK(x[i] == doctest::Approx(center[i]));
        leader.shrink(0.0, x);
        for (std::size_t i = 0; i < n; ++i) CHECK(x[i] == doctest::Approx(center[i]));
      }
      leader.shrink(1e300, x);
      CHECK(x == center);
    }
  }
  CHECK_THROWS_AS(QuadraticLeader(domain_of(0), std::nan("")), std::invalid_argument);
}

TEST_CASE("run equals observe, also through a saved state") {
  const Stream stream;
  const auto d = static_cast<std::size_t>(kDimension);
  for (int kind = 0; kind < 4; ++kind) {
    for (const Statistics statistics : {Statistics::gradient, Statistics::quadratic}) {
      for (std::uint64_t batch : {1U, 4U}) {
        auto whole = make(kind, statistics, batch);
        std::vector<double> decisions(kRounds * d);
        whole->run(whole->enter(), std::span(stream.features).first(kRounds * d),
                   std::span(stream.labels).first(kRounds), {},
                   std::span(decisions).first(kRounds * d), {});
        auto single = make(kind, statistics, batch);
        std::vector<double> theta(d);
        for (std::uint64_t t = 0; t < kRounds; ++t) {
          single->decision(theta);
          CHECK(std::memcmp(theta.data(), decisions.data() + t * d, d * sizeof(double)) == 0);
          single->observe(t, std::span(stream.features).subspan(t * d, d), stream.labels[t]);
          const std::string bytes = state_of(*single);
          auto restored = make(kind, statistics, batch);
          ArchiveReader reader(bytes);
          restored->read(reader);
          reader.finish();
          single = std::move(restored);
        }
        CHECK(state_of(*single) == state_of(*whole));
      }
    }
  }
}

TEST_CASE("linear losses: blocks of any length give the same state") {
  const Stream stream;
  const auto d = static_cast<std::size_t>(kDimension);
  for (std::uint64_t batch : {1U, 4U}) {
    auto whole = make(0, Statistics::gradient, batch);
    std::vector<double> losses(kRounds), other(kRounds);
    std::vector<std::uint8_t> changed(kRounds);
    whole->run(whole->enter(), std::span(stream.features).first(kRounds * d), {},
               std::span(losses).first(kRounds), {}, std::span(changed).first(kRounds));
    auto single = make(0, Statistics::gradient, batch);
    for (std::uint64_t t = 0; t < kRounds; ++t) {
      CHECK(changed[t] == ((t + 1) % batch == 0 ? 1 : 0));
      if (t % 3 == 0) {
        single->observe_gradient(t, std::span(stream.features).subspan(t * d, d));
        continue;
      }
      single->run(single->enter(), std::span(stream.features).subspan(t * d, d), {},
                  std::span(other).subspan(t, 1), {}, {});
      CHECK(other[t] == losses[t]);
    }
    CHECK(state_of(*single) == state_of(*whole));
  }
}

TEST_CASE("a round that was not decided, or is past the horizon, is refused") {
  const Stream stream;
  auto learner = make(0, Statistics::gradient);
  CHECK_THROWS_AS(learner->observe(1, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  learner->observe(0, std::span(stream.features).first(kDimension), 0.0);
  CHECK_THROWS_AS(learner->observe(0, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  CHECK_THROWS_AS(
      learner->run(learner->enter(), std::span(stream.features).first(kRounds * kDimension), {}, {},
                   {}, {}),
      HorizonExceeded);
  CHECK(learner->round() == 1);
  auto quadratic = make(0, Statistics::quadratic);
  CHECK_THROWS_AS(quadratic->observe_gradient(0, std::span(stream.features).first(kDimension)),
                  std::invalid_argument);
}

TEST_CASE("other threads are refused while the learner runs") {
  const Stream stream;
  auto learner = make(0, Statistics::gradient);
  std::atomic<bool> done{false};
  std::atomic<int> seen{0};
  std::thread watcher([&] {
    std::vector<double> theta(static_cast<std::size_t>(kDimension));
    while (!done) {
      try {
        learner->decision(theta);
        (void)state_of(*learner);
        ++seen;
      } catch (const RoundOrderError&) {
      }
    }
  });
  while (seen == 0) std::this_thread::yield();
  for (std::uint64_t t = 0; t < kRounds; ++t) {
    for (;;) {  // the watcher may hold the learner for a moment
      try {
        learner->run(learner->enter(),
                     std::span(stream.features).subspan(t * kDimension, kDimension), {}, {}, {},
                     {});
        break;
      } catch (const RoundOrderError&) {
        std::this_thread::yield();
      }
    }
  }
  done = true;
  watcher.join();
  CHECK(learner->round() == kRounds);
}
