// Mutated states of compiled engines: refused with StateError, or an engine that goes on. Worth
// most under sanitizers: whatever a state says, nothing is read or written out of bounds.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/experts/prefix_hedge.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"
#include "dpoco/local/hedge.hpp"
#include "dpoco/local/posterior.hpp"
#include "dpoco/oco/continuous_multiplicative_weights.hpp"

using namespace dpoco;
using experts::PrefixHedge;
using frank_wolfe::FrankWolfe;
using mechanisms::ContinualSum;
using oco::ContinuousMultiplicativeWeights;
using random::Key;
using random::Source;

namespace {

constexpr Index kDimension = 3;
constexpr std::uint64_t kRounds = 24;
constexpr std::size_t kHypotheses = 4;
constexpr int kMutants = 1500;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Engine = std::mt19937_64;

std::uint64_t below(Engine& rng, std::uint64_t n) { return rng() % n; }

std::string word_of(Engine& rng) {
  const double reals[] = {-0.0,   1.0,    -1.0,      0.5,        5e-324,      1e300,
                          -1e300, 1e-300, kInfinity, -kInfinity, std::nan("")};
  const std::uint64_t words[] = {0,          1,          2,          63,         64,    1ULL << 32,
                                 1ULL << 53, 1ULL << 60, ~0ULL >> 1, 1ULL << 63, ~0ULL, rng()};
  Archive archive;
  if (below(rng, 2) == 0) {
    archive.real(reals[below(rng, std::size(reals))]);
  } else {
    archive.word(words[below(rng, std::size(words))]);
  }
  return archive.take();
}

std::string mutated(Engine& rng, std::string bytes) {
  const std::uint64_t changes = 1 + below(rng, 3);
  for (std::uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = below(rng, bytes.size());
    const std::size_t word = at / 8 * 8;
    switch (below(rng, 6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(rng, 8)));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(word, word_of(rng));
        break;
      case 3:
        bytes.erase(word, 8 * (1 + below(rng, 4)));
        break;
      default:
        bytes.replace(word, 8, word_of(rng));
    }
  }
  return bytes;
}

template <class T>
std::string state_of(const T& object) {
  Archive archive;
  object.write(archive);
  return archive.take();
}

template <class T>
void read(T& object, const std::string& bytes) {
  ArchiveReader reader(bytes);
  object.read(reader);
  reader.finish();
}

// `play` advances by a round and returns the largest number it shows.
template <class T>
void attack(const char* name, const std::function<std::unique_ptr<T>()>& make,
            const std::function<double(T&)>& play) {
  CAPTURE(name);
  std::vector<std::string> states;
  auto object = make();
  for (int t = 0; t < 9; ++t) {
    if (t % 4 == 0) states.push_back(state_of(*object));
    play(*object);
  }
  Engine rng(20240229);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::string bytes = mutated(rng, states[below(rng, states.size())]);
    auto fresh = make();
    try {
      read(*fresh, bytes);
    } catch (const StateError&) {
      continue;
    }
    ++accepted;
    const std::string written = state_of(*fresh);
    auto again = make();
    read(*again, written);
    CHECK(state_of(*again) == written);
    try {
      for (int t = 0; t < 3; ++t) CHECK(std::isfinite(play(*fresh)));
    } catch (const Error&) {  // the horizon is used up, say
    }
  }
  CHECK(accepted > 0);
  CHECK(accepted < kMutants);
}

std::unique_ptr<mechanisms::NoiseProcess> process(const std::string& method) {
  const mechanisms::NoiseLaw law{2.0, 1.5};
  if (method == "tree") return mechanisms::make_tree(kDimension, kRounds, law);
  if (method == "toeplitz") return mechanisms::make_toeplitz(kDimension, kRounds, law);
  if (method == "banded") {
    std::vector<double> levels(kRounds, 0.9);
    levels[0] = 1.0;
    return mechanisms::make_banded(kDimension, law, {{1.0, 0.5, 0.3}, std::move(levels)});
  }
  return mechanisms::make_blt(kDimension, law, {{0.01, 0.2}, {0.03, 0.1}});
}

std::unique_ptr<Source> source() { return std::make_unique<Source>(Key{1, 2, 3}, 4); }

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double x : values) most = std::isfinite(x) ? std::fmax(most, std::fabs(x)) : x;
  return most;
}

}  // namespace

TEST_CASE("mutated states of continual sums") {
  for (const char* method : {"tree", "toeplitz", "blt", "banded"}) {
    attack<ContinualSum>(
        method,
        [&] {
          return std::make_unique<ContinualSum>(
              kDimension, kRounds, process(method), 1.5, source(),
              losses::RecordClipper(kDimension, 1.0, 2.0, kInfinity));
        },
        [](ContinualSum& sum) {
          const std::vector<double> value = {0.3, -0.2, 0.9};
          std::vector<double> out(value.size());
          sum.run(sum.enter(), value, out);
          return largest(out);
        });
  }
}

TEST_CASE("mutated states of Hedge on noisy sums") {
  attack<PrefixHedge>(
      "prefix hedge",
      [] {
        return std::make_unique<PrefixHedge>(
            experts::ExpertSettings{kDimension, kRounds, {0.0, 1.0}}, 0.3,
            ContinualSum(kDimension, kRounds - 1, process("blt"), 1.5, source()), nullptr);
      },
      [](PrefixHedge& learner) {
        const std::vector<double> losses = {0.1, 1.0, 0.4};
        const std::uint64_t decision = learner.decision();
        CHECK(decision < learner.experts());
        learner.observe(learner.round(), losses);
        std::vector<double> weights(learner.experts());
        learner.weights(weights);
        return largest(weights);
      });
}

TEST_CASE("mutated states of tree Frank-Wolfe") {
  attack<FrankWolfe>(
      "tree Frank-Wolfe",
      [] {
        const std::vector<double> start(kDimension, 0.0);
        const auto ball = std::make_shared<domains::LpBall>(kDimension, 1.5, 1.0);
        const losses::RecordClipper clipper(kDimension, 1.0, 3.0, kInfinity);
        return std::make_unique<FrankWolfe>(
            ball, frank_wolfe::LeafRule(losses::GlmLoss{}, clipper, 4.0),
            frank_wolfe::FrankWolfeSettings{.horizon = kRounds},
            frank_wolfe::make_sum_rule(
                ball, ContinualSum(kDimension, kRounds, process("tree"), 1.5, source())),
            start);
      },
      [](FrankWolfe& learner) {
        const std::vector<double> features = {0.5, -0.5, 0.1};
        std::vector<double> decision(features.size());
        learner.decision(decision);
        learner.observe(learner.round(), features, 0.5);
        return largest(decision);
      });
}

TEST_CASE("mutated states of continuous multiplicative weights") {
  for (const bool linear : {true, false}) {
    attack<ContinuousMultiplicativeWeights>(
        linear ? "linear" : "squared",
        [&] {
          const auto box = std::make_shared<domains::Box>(Vector::Constant(kDimension, -1.0),
                                                          Vector::Constant(kDimension, 1.0));
          const domains::Body body = domains::Body::of(box, false);
          const losses::RecordClipper clipper(kDimension, 1.0, 2.0);
          oco::ContinuousMultiplicativeWeightsSettings settings;
          settings.rule = {.horizon = kRounds, .block = 2, .forced = 0.2};
          settings.factor_range = 2.0;
          settings.lipschitz = kInfinity;
          settings.gibbs.inverse_temperature = 0.5;
          settings.gibbs.regularization = 6.0;
          return std::make_unique<ContinuousMultiplicativeWeights>(
              linear ? losses::make_linear_sum(body, clipper)
                     : losses::make_glm_sum(body, losses::GlmLoss{}, clipper),
              settings, source());
        },
        [linear](ContinuousMultiplicativeWeights& learner) {
          const std::vector<double> features = {0.5, -0.5, 0.1};
          std::vector<double> decision(features.size());
          learner.decision(decision);
          if (linear) {
            learner.observe_gradient(learner.round(), features);
          } else {
            learner.observe(learner.round(), features, 0.5);
          }
          return largest(decision);
        });
  }
}

TEST_CASE("mutated states of the servers of local reports") {
  attack<local::Posterior>(
      "posterior", [] { return std::make_unique<local::Posterior>(kHypotheses, 0.75); },
      [](local::Posterior& posterior) {
        const std::vector<double> means = {0.5, -0.5, 0.1, 0.0};
        const std::int64_t bit = 1;
        posterior.add_bits(means, 0.4, {&bit, 1});
        std::vector<double> weights(kHypotheses);
        posterior.weights(0.75, weights);
        return largest(weights);
      });
  attack<local::Hedge>(
      "hedge", [] { return std::make_unique<local::Hedge>(kHypotheses, 0.0); },
      [](local::Hedge& hedge) {
        const std::vector<double> estimates = {0.5, -0.5, 0.1, 0.0};
        hedge.add(estimates);
        return largest(std::vector<double>(hedge.weights().begin(), hedge.weights().end()));
      });
}
