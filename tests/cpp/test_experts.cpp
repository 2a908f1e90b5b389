#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "dpoco/experts/oblivious_tracker.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/categorical.hpp"
#include "dpoco/simd/kernels.hpp"

using dpoco::random::Key;
using dpoco::random::Source;

TEST_CASE("losses are admitted to [0, 1], whatever they are") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{0.0, 1.0, 0.25, -0.5, 2.0,    nan, kInf, -kInf,  1e308,
                              1.0, nan, 0.0,  -0.0, -1e308, 0.5, 1.0,  5e-324, 0.75};
  std::vector<double> out(x.size());
  for (const char* set : {"baseline", "auto"}) {
    dpoco::simd::select(set);
    const auto& k = dpoco::simd::kernels();
    // Clipped: -0.5, 2, 1e308, -1e308; replaced: two NaN, two infinities.
    CHECK(k.admit_losses(x.data(), x.size(), 0.0, 1.0, 1.0, out.data()) == 8);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::isfinite(x[i]) ? std::fmin(std::fmax(x[i], 0.0), 1.0) : 0.0;
      CHECK(out[i] == want);
    }
    // The product with a rounded inverse stays in the range.
    const double high = 3.0;
    CHECK(k.admit_losses(&high, 1, 0.0, 3.0, std::nextafter(1.0 / 3.0, 1.0), out.data()) == 0);
    CHECK(out[0] == 1.0);
  }
  dpoco::simd::select("auto");
}

TEST_CASE("a scan never draws what has no weight") {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  const auto& k = dpoco::simd::kernels();
  for (int repeat = 0; repeat < 300; ++repeat) {
    constexpr std::size_t kExperts = 200;
    std::vector<double> scores(kExperts);
    std::vector<double> weights(kExperts);
    for (std::size_t i = 0; i < kExperts; ++i) {
      scores[i] = i % 128 < 100 && i < 128 ? 3.0 * unit(generator) : 2000.0 + unit(generator);
    }
    scores[0] = 0.0;
    const double total = k.tilt(nullptr, scores.data(), 0.0, 1.0, kExperts, weights.data());
    for (const double u : {1.0, std::nextafter(1.0, 0.0), 0.5, 1e-300}) {
      const std::size_t drawn = dpoco::samplers::draw_by_scan(u, weights, total);
      CHECK(weights[drawn] > 0.0);
    }
  }
}

TEST_CASE("races draw by weight, and never what has none") {
  Source source(Key{}, 5);
  const std::vector<double> weights{0.0, 1.0, 3.0, 0.0};
  const double lowest = -std::numeric_limits<double>::infinity();
  const std::vector<double> logs{lowest, 0.0, std::log(3.0), lowest};
  std::vector<double> scratch(4);
  for (const bool in_logs : {false, true}) {
    int counts[4] = {};
    constexpr int kDraws = 40000;
    for (int i = 0; i < kDraws; ++i) {
      const std::size_t drawn = in_logs ? dpoco::samplers::draw_by_log_race(source, logs, scratch)
                                        : dpoco::samplers::draw_by_race(source, weights, scratch);
      ++counts[drawn];
    }
    CHECK(counts[0] + counts[3] == 0);
    // Six standard deviations.
    CHECK(std::abs(counts[2] - 0.75 * kDraws) < 6.0 * std::sqrt(kDraws * 0.75 * 0.25));
  }
}

TEST_CASE("paths and coins of a tracker are for its own experts and rounds") {
  const auto make = [](std::uint64_t experts, std::uint64_t horizon) {
    dpoco::experts::ObliviousTracker({.experts = 3, .horizon = 5, .range = {}},
                                     dpoco::samplers::make_share_paths(experts, 0.1, 1.0),
                                     {.horizon = horizon}, 1.0, std::make_unique<Source>(Key{}, 1));
  };
  CHECK_NOTHROW(make(3, 5));
  CHECK_THROWS_AS(make(4, 5), std::invalid_argument);
  CHECK_THROWS_AS(make(3, 6), std::invalid_argument);
}
