// The server of locally private reports: the same bits on every instruction set, exact state,
// refusal of impossible states and values.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/local/channel.hpp"
#include "dpoco/local/hedge.hpp"
#include "dpoco/local/losses.hpp"
#include "dpoco/local/posterior.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/simulate.hpp"
#include "dpoco/simd/kernels.hpp"

using namespace dpoco::local;

namespace {

constexpr std::size_t kHypotheses = 7;
constexpr std::size_t kLabels = 301;

std::vector<double> rows() {
  std::mt19937_64 generator(1);
  std::exponential_distribution<double> draw;
  std::vector<double> matrix(kHypotheses * kLabels);
  for (std::size_t j = 0; j < kHypotheses; ++j) {
    double total = 0.0;
    for (std::size_t y = 0; y < kLabels; ++y) total += matrix[j * kLabels + y] = draw(generator);
    for (std::size_t y = 0; y < kLabels; ++y) matrix[j * kLabels + y] /= total;
  }
  return matrix;
}

template <class T>
std::string state_of(const T& learner) {
  dpoco::Archive archive;
  learner.write(archive);
  return archive.take();
}

template <class T>
void restore(T& learner, const std::string& state) {
  dpoco::ArchiveReader reader(state);
  learner.read(reader);
  reader.finish();
}

}  // namespace

TEST_CASE("what the server computes has the same bits on every instruction set") {
  const std::vector<double> matrix = rows();
  std::vector<std::vector<double>> found;
  for (const char* set : {"baseline", "auto"}) {
    dpoco::simd::select(set);
    std::vector<double> all;
    std::vector<double> weights(kHypotheses, 1.0 / kHypotheses);
    std::vector<double> coefficients(kHypotheses);
    std::vector<double> means(kHypotheses);
    std::vector<double> scratch(2 * kHypotheses);
    adaptive_query(weights, matrix, 0, 1, coefficients, means, scratch);
    all.insert(all.end(), means.begin(), means.end());
    std::vector<double> losses(matrix.size());
    centred_losses(matrix, kHypotheses, 0.1, losses);
    all.insert(all.end(), losses.begin(), losses.end());
    std::vector<double> mixed(kLabels);
    mixture(matrix, weights, mixed);
    all.insert(all.end(), mixed.begin(), mixed.end());
    Hedge hedge(kHypotheses, 0.0);
    for (std::size_t i = 0; i < 50; ++i) hedge.add(std::span(losses).subspan(i, kHypotheses));
    all.insert(all.end(), hedge.weights().begin(), hedge.weights().end());
    Posterior posterior(kHypotheses, 0.75);
    const std::int64_t bits[3] = {1, 0, 1};
    posterior.add_bits(means, 0.9, bits);
    const std::int64_t subsets[4] = {0, 2, 1, 5};
    posterior.add_subsets(matrix, 0.5, 2, subsets);
    posterior.weights(0.75, weights);
    all.insert(all.end(), weights.begin(), weights.end());
    found.push_back(all);
  }
  dpoco::simd::select("auto");
  CHECK(found[0] == found[1]);
}

TEST_CASE("states of the server are exact, and impossible ones are refused") {
  Posterior posterior(3, 0.75);
  const double means[3] = {0.5, -0.25, 1.0};
  const std::int64_t bits[4] = {1, 0, 1, 1};
  posterior.add_bits(means, 0.4, bits);
  Posterior copy(3, 0.75);
  restore(copy, state_of(posterior));
  posterior.add_bits(means, 0.4, bits);
  copy.add_bits(means, 0.4, bits);
  CHECK(state_of(copy) == state_of(posterior));

  Hedge hedge(3, 0.0);
  hedge.raise_start(2.0);
  hedge.add_coordinate(1, means, 5.0, bits);
  Hedge twin(3, 0.0);
  restore(twin, state_of(hedge));
  for (std::size_t j = 0; j < 3; ++j) CHECK(twin.weights()[j] == hedge.weights()[j]);
  hedge.raise_start(1.0);  // never lowered
  CHECK(state_of(twin) == state_of(hedge));

  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& logs :
       {std::vector<double>{nan, 0.0, 0.0}, {1.0, 0.0, 0.0}, {-1.0, -1.0, -1.0}}) {
    dpoco::Archive archive;
    archive.word(1);
    archive.reals(logs);
    CHECK_THROWS_AS(restore(copy, archive.take()), dpoco::StateError);
  }
  CHECK_THROWS_AS(restore(copy, state_of(hedge)), dpoco::StateError);
  for (const double spread : {nan, 1.0, -1.0}) {  // below its start
    dpoco::Archive archive;
    archive.word(1);
    archive.real(2.0);
    archive.real(spread);
    archive.real(0.0);
    archive.reals(std::span(means));
    CHECK_THROWS_AS(restore(twin, archive.take()), dpoco::StateError);
  }
  CHECK(state_of(twin) == state_of(hedge));
}

TEST_CASE("values that are no reports change nothing") {
  Posterior posterior(2, 1.0);
  const double means[2] = {1.0, -1.0};
  const std::int64_t bad[2] = {1, 2};
  const std::string before = state_of(posterior);
  CHECK_THROWS_AS(posterior.add_bits(means, 0.5, bad), std::invalid_argument);
  CHECK_THROWS_AS(posterior.add_bits(means, 1.0, std::span(bad).first(1)), std::invalid_argument);
  CHECK_THROWS_AS(posterior.add_subsets(means, 1.0, 1, std::span(bad).first(1)),
                  std::invalid_argument);
  CHECK(state_of(posterior) == before);
  Hedge hedge(2, 0.1);
  CHECK_THROWS_AS(hedge.add_coordinate(0, means, 1.0, bad), std::invalid_argument);
  CHECK_THROWS_AS(hedge.add_coordinate(2, means, 1.0, std::span(bad).first(1)),
                  std::invalid_argument);
  CHECK(hedge.reports() == 0);
  // Estimates that are no numbers count as 0.
  const double wild[2] = {std::numeric_limits<double>::infinity(), 1.0};
  hedge.add(wild);
  CHECK(hedge.losses()[0] == 0.0);
  CHECK(hedge.weights()[0] > hedge.weights()[1]);
}

TEST_CASE("subsets are drawn into as many places as they have labels") {
  const std::vector<double> matrix = rows();
  const std::vector<std::int64_t> labels(20, 3);
  const Play play{.tables = matrix,
                  .contexts = 1,
                  .hypotheses = kHypotheses,
                  .labels = kLabels,
                  .context = {},
                  .label = labels,
                  .first = 1,
                  .mixing = 0.1,
                  .truth = {},
                  .named = -1,
                  .confidence = 0.1,
                  .checkpoints = {}};
  // More bits than labels of a subset: their reports share a buffer.
  const PosteriorPlan plan{.seed = 1,
                           .family = family_from("hadamard"),
                           .channel = Channel::subset,
                           .interactive = false,
                           .epsilon = 1.0,
                           .bits = 5,
                           .subset_size = 2,
                           .response_gain = 1.0,
                           .subset_gain = 1.0,
                           .contraction = 0.5,
                           .signal = 0.1};
  Posterior learner(kHypotheses, 1.0);
  dpoco::random::Source source(dpoco::random::Key{}, 1);
  Measured out;
  simulate(play, plan, learner, source, out);
  CHECK(out.subsets == labels.size());
  CHECK(learner.reports() == labels.size());
}
