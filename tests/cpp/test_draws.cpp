// What mechanisms draw, computed again from the variates that their pages name; what they refuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/mechanisms/vertex_selection.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/noise/samplers.hpp"

using namespace dpoco;
using namespace dpoco::mechanisms;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr Key kKey{3, 1, 4, 1, 5, 9, 2, 6};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Variate kKinds[] = {Variate::word,        Variate::uniform, Variate::gaussian,
                              Variate::exponential, Variate::laplace, Variate::gumbel};
using Positions = std::array<std::uint64_t, random::kVariates>;  // in the order of kKinds
using Reals = std::vector<double>;

Source fresh() { return Source(kKey, 7); }

Positions positions_of(const Source& source) {
  Positions found{};
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = source.position(kKinds[i]);
  return found;
}

std::unique_ptr<Source> placed(const Positions& positions) {
  Archive archive;
  for (int i = 0; i < 5; ++i) archive.word(0);
  for (const std::uint64_t each : positions) archive.word(each);
  const std::string state = archive.take();
  ArchiveReader reader(state);
  auto source = std::make_unique<Source>(kKey, 0);
  source->read(reader);
  return source;
}

// accounts(source) holds where the source is, and nowhere a step from there. Of words mechanisms
// take any number.
template <class Accounts>
void check_accounts(const Source& source, Accounts accounts, std::size_t kinds = 5) {
  const Positions at = positions_of(source);
  CHECK(accounts(*placed(at)));
  for (std::size_t kind = 1; kind < kinds; ++kind) {
    Positions moved = at;
    ++moved[kind];
    CHECK_FALSE(accounts(*placed(moved)));
    if (at[kind] == 0) continue;
    moved[kind] -= 2;
    CHECK_FALSE(accounts(*placed(moved)));
  }
}

// reference(x, source) is what a release is, but for a relative `tolerance`. The caller draws a
// uniform after each.
template <class Reference>
void check_releases(VectorRelease& mechanism, const Reals& x, double tolerance,
                    Reference reference) {
  Source source = fresh(), same = fresh();
  const std::string law = mechanism.law();
  // Discrete Laplace noise is made of words only.
  const bool counts = law != "none" && !(law == "laplace" && mechanism.grid() > 0.0);
  for (std::uint64_t k = 1; k <= 3; ++k) {
    Reals out = x;
    mechanism.release(out, source, out);  // in place
    const Reals expected = reference(x, same);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(std::fabs(out[i] - expected[i]) <= tolerance * std::fabs(expected[i]));
    }
    source.uniform();
    same.uniform();
    CHECK(positions_of(source) == positions_of(same));
    check_accounts(source, [&](const Source& at) { return mechanism.accounts_for(at, k, k); });
    CHECK_FALSE(mechanism.accounts_for(source, k, k + 1));
    if (counts) CHECK_FALSE(mechanism.accounts_for(source, k - 1, k));
  }
}

// The nearest multiple of 2^exponent; x itself from 2^51 multiples on.
double rounded(double x, int exponent) {
  const double units = std::ldexp(x, -exponent);
  return std::fabs(units) < 0x1p51 ? std::ldexp(std::nearbyint(units), exponent) : x;
}

int step_of(double scale) { return std::ilogb(scale) - 12; }

// Entries around 0, around the step and beyond 2^51 steps.
Reals entries(std::size_t d, double scale) {
  const double step = std::ldexp(1.0, step_of(scale));
  const double kinds[] = {0.0,           1.37 * scale,    -210.5 * scale,
                          -0.49 * step,  0x1.8p50 * step, (0x1p52 + 1.0) * step,
                          -0x1p60 * step};
  Reals x(d);
  for (std::size_t i = 0; i < d; ++i) x[i] = kinds[i % std::size(kinds)];
  return x;
}

Reals drawn(Source& source, Variate kind, std::size_t n) {
  Reals z(n);
  source.fill(kind, z);
  return z;
}

std::vector<std::shared_ptr<const domains::Domain>> polytopes(Index d) {
  RowMatrix vertices(d + 1, d);
  Source source = fresh();
  source.fill(Variate::gaussian, view(vertices));
  return {std::make_shared<domains::LpBall>(d, 1.0, 2.0),
          std::make_shared<domains::Simplex>(d, 0.5),
          std::make_shared<domains::Box>(Eigen::VectorXd::Constant(d, -1.0),
                                         Eigen::VectorXd::Constant(d, 0.75)),
          std::make_shared<domains::VertexSet>(vertices)};
}

}  // namespace

TEST_CASE("additive noise is the documented function of its variates, rounded to a public grid") {
  const char* names[] = {"none", "knorm", "gaussian", "laplace"};
  for (const auto law : {AdditiveLaw::none, AdditiveLaw::cube_exponential, AdditiveLaw::gaussian,
                         AdditiveLaw::laplace}) {
    for (const std::size_t d : {1, 2, 130}) {
      for (const double scale : {0x1.8p-30, 1.0, 3e12}) {
        const auto mechanism = make_additive_noise(law, scale, static_cast<Index>(d));
        const bool silent = law == AdditiveLaw::none;
        CHECK(mechanism->strength() == (silent ? 0.0 : scale));
        CHECK(mechanism->grid() == 0.0);
        CHECK(std::strcmp(mechanism->law(), names[static_cast<int>(law)]) == 0);
        check_releases(*mechanism, entries(d, scale), 0.0, [&](const Reals& x, Source& same) {
          Reals z = x;
          if (silent) return z;
          if (law == AdditiveLaw::cube_exponential) {
            double radius = 0.0;
            for (const double each : drawn(same, Variate::exponential, d + 1)) radius += each;
            z = drawn(same, Variate::uniform, d);
            for (double& each : z) each = scale * radius * (2.0 * each - 1.0);
          } else {
            z = drawn(same, law == AdditiveLaw::laplace ? Variate::laplace : Variate::gaussian, d);
            for (double& each : z) each *= scale;
          }
          for (std::size_t i = 0; i < d; ++i) z[i] = rounded(x[i] + z[i], step_of(scale));
          return z;
        });
      }
    }
  }
  for (const double scale : {0.0, -1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(make_additive_noise(AdditiveLaw::laplace, scale, 2), std::invalid_argument);
    CHECK_THROWS_AS(make_additive_noise(AdditiveLaw::laplace, scale, 2, 0x1p-20),
                    std::invalid_argument);
    CHECK_NOTHROW(make_additive_noise(AdditiveLaw::none, scale, 2));
  }
  CHECK_THROWS_AS(make_additive_noise(AdditiveLaw::none, 1.0, 0), std::invalid_argument);
}

TEST_CASE("noise on a grid is integers of it, added exactly to what x is on it") {
  for (const auto law : {AdditiveLaw::gaussian, AdditiveLaw::laplace}) {
    for (const double scale : {1.3, 0x1p20}) {
      for (const std::size_t d : {1, 9}) {
        // A grid above and one at the step that is released.
        const double grid = std::ldexp(1.0, std::ilogb(scale) - (d == 1 ? 20 : 12));
        const auto mechanism = make_additive_noise(law, scale, static_cast<Index>(d), grid);
        CHECK(mechanism->strength() == scale);
        CHECK(mechanism->grid() == grid);
        CHECK(std::strcmp(mechanism->law(),
                          law == AdditiveLaw::gaussian ? "gaussian" : "laplace") == 0);
        check_releases(*mechanism, entries(d, scale), 0.0, [&](const Reals& x, Source& same) {
          Reals z(d);
          if (law == AdditiveLaw::gaussian) {
            noise::RoundedGaussian(scale / grid).fill(same, z);
          } else {
            const noise::DiscreteLaplace discrete({scale, grid});
            for (double& each : z) each = static_cast<double>(discrete.draw(same));
          }
          for (std::size_t i = 0; i < d; ++i) {
            const double most = 0x1p51 - 1.0;
            const double units = std::clamp(std::nearbyint(x[i] / grid), -most, most);
            z[i] = rounded((units + z[i]) * grid, step_of(scale));
          }
          return z;
        });
      }
    }
    CHECK_THROWS_AS(make_additive_noise(law, 1.0, 0, 0x1p-20), std::invalid_argument);
    CHECK_THROWS_AS(make_additive_noise(law, 1.0, 2, 0x1.8p-20), std::invalid_argument);
  }
  CHECK_THROWS_AS(make_additive_noise(AdditiveLaw::cube_exponential, 1.0, 2, 0x1p-20),
                  std::invalid_argument);
}

TEST_CASE("a selected vertex is the winner of the documented race") {
  constexpr double kFloor = 0x1p-1000;
  for (const Index dimension : {1, 2, 63, 64, 65, 200}) {
    const auto d = static_cast<std::size_t>(dimension);
    const auto domains = polytopes(dimension);
    for (std::size_t kind = 0; kind < domains.size(); ++kind) {
      for (const auto noise : {SelectionNoise::gumbel, SelectionNoise::laplace}) {
        const auto selection = make_vertex_selection(domains[kind], noise);
        CHECK(selection->dimension() == dimension);
        const bool gumbel = noise == SelectionNoise::gumbel;
        const auto* list = dynamic_cast<const domains::VertexSet*>(domains[kind].get());
        const std::size_t signs = kind == 0 ? 2 : 1;
        const double length = kind == 0 ? 2.0 : kind == 1 ? 0.5 : 1.0;
        Source source = fresh(), same = fresh(), directions(kKey, 8);
        for (std::uint64_t k = 1; k <= 6; ++k) {
          Reals g = drawn(directions, Variate::gaussian, d), out(d, 7.0), expected(d, 0.0);
          const double rate = std::ldexp(1.0, static_cast<int>(3 * k) - 12);
          for (double& each : g) each = k == 4 ? 1e4 * std::fabs(each) : each;
          if (k == 6) std::fill(g.begin(), g.end(), 1e4);  // but one weight is only the floor
          g[d / 2] = k == 6 ? -1e4 : k == 5 ? 0.0 : g[d / 2];
          selection->select(g, rate, source, out);
          if (kind == 2) {  // a box: coordinate by coordinate, between -1 and 3/4
            const Reals z = drawn(same, gumbel ? Variate::exponential : Variate::laplace, 2 * d);
            for (std::size_t j = 0; j < d; ++j) {
              const double excess = rate * g[j] * 1.75;
              const double odds = std::exp(-std::min(std::fabs(excess), 600.0));
              const bool upset = z[j] < odds * z[d + j];
              const bool upper = gumbel ? upset != (g[j] < 0.0) : excess + z[j] < z[d + j];
              expected[j] = upper ? 0.75 : -1.0;
            }
          } else {
            Reals scores(list != nullptr ? static_cast<std::size_t>(list->count()) : signs * d);
            if (list != nullptr) list->scores(g, scores);
            for (std::size_t i = 0; list == nullptr && i < scores.size(); ++i) {
              scores[i] = length * (i < d ? g[i] : -g[i - d]);
            }
            const std::size_t n = scores.size();
            std::size_t chosen = 0;
            if (n > 1 && !gumbel) {
              Reals z = drawn(same, Variate::laplace, n);
              for (std::size_t i = 0; i < n; ++i) z[i] += rate * scores[i];
              chosen = static_cast<std::size_t>(std::min_element(z.begin(), z.end()) - z.begin());
            } else if (n > 1) {
              const double best = *std::min_element(scores.begin(), scores.end());
              const std::size_t run = n / signs, blocks = (run + 63) / 64;
              const auto weight = [&](std::size_t block, std::size_t place) {  // 0: no such vertex
                const std::size_t at = block % blocks * 64 + place;
                if (at >= run) return 0.0;
                return std::exp(-rate * (scores[block / blocks * run + at] - best)) + kFloor;
              };
              const auto race = [&](std::size_t racers, auto strength) {
                const Reals e = drawn(same, Variate::exponential, racers);
                std::size_t first = 0;
                double least = kInfinity;
                for (std::size_t i = 0; i < racers; ++i) {
                  if (e[i] / strength(i) < least) first = i;
                  least = std::min(least, e[i] / strength(i));
                }
                return first;
              };
              std::size_t block = 0;
              if (signs * blocks > 1) {
                block = race(signs * blocks, [&](std::size_t b) {
                  double sum = 0.0;
                  for (std::size_t i = 0; i < 64; ++i) sum += weight(b, i);
                  return sum;
                });
              }
              const std::size_t place = race(64, [&](std::size_t i) { return weight(block, i); });
              chosen = block / blocks * run + block % blocks * 64 + place;
            }
            if (list != nullptr) {
              std::ranges::copy(list->vertex(static_cast<Index>(chosen)), expected.begin());
            } else {
              expected[chosen % d] = chosen < d ? length : -length;
            }
          }
          CHECK(out == expected);
          CHECK(positions_of(source) == positions_of(same));
          if (positions_of(same) == Positions{}) continue;
          check_accounts(
              source, [&](const Source& at) { return selection->accounts_for(at, k); }, 6);
          CHECK_FALSE(selection->accounts_for(source, k - 1));
        }
      }
      CHECK_THROWS_AS(make_vertex_selection(domains[kind], SelectionNoise::exponential),
                      std::invalid_argument);
    }
  }
}

TEST_CASE("noisy max is the best of its scores and variates, in favour of every candidate") {
  const Reals scores{0.5, kNan, -1.5, 0.25, kInfinity, 1.0, -kInfinity};
  for (const auto kind :
       {SelectionNoise::exponential, SelectionNoise::gumbel, SelectionNoise::laplace}) {
    for (const bool largest : {false, true}) {
      for (const double scale : {0.0, 0.7, 30.0}) {
        NoisyMax law({.candidates = 7, .scale = scale, .noise = kind, .largest = largest});
        Source source = fresh(), same = fresh();
        for (int k = 0; k < 40; ++k) {
          const auto noise =
              kind == SelectionNoise::laplace ? Variate::laplace : Variate::exponential;
          Reals heights = scale > 0.0 ? drawn(same, noise, 7) : Reals(7, 0.0);
          for (std::size_t i = 0; i < 7; ++i) {
            const double own = std::isfinite(scores[i]) ? (largest ? scores[i] : -scores[i]) : 0.0;
            const bool gumbel = scale > 0.0 && kind == SelectionNoise::gumbel;
            heights[i] = own + scale * (gumbel ? -std::log(heights[i]) : heights[i]);
          }
          const auto best = std::max_element(heights.begin(), heights.end()) - heights.begin();
          CHECK(law.select(scores, source) == static_cast<std::size_t>(best));
          const Reals e = drawn(same, Variate::exponential, 7);
          CHECK(law.uniform(source) ==
                static_cast<std::size_t>(std::min_element(e.begin(), e.end()) - e.begin()));
          CHECK(positions_of(source) == positions_of(same));
        }
      }
    }
  }
  Source source = fresh();
  CHECK(NoisyMax({.candidates = 1, .scale = 1.0}).uniform(source) == 0);
  CHECK(NoisyMax({.candidates = 1, .scale = 1.0}).select(std::span(scores).first(1), source) == 0);
  CHECK(positions_of(source) == Positions{});
  for (const double scale : {-1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(NoisyMax({.candidates = 2, .scale = scale}), std::invalid_argument);
  }
  CHECK_THROWS_AS(NoisyMax({.candidates = 0, .scale = 1.0}), std::invalid_argument);
}

TEST_CASE("an alarm is an excess and its noise beyond the threshold's; states are possible ones") {
  for (const auto noise : {ThresholdNoise::exponential, ThresholdNoise::laplace}) {
    for (const double scale : {0.0, 2.5}) {
      const AboveThresholdSettings settings{scale, 0.75, noise, 3};
      const auto kind = noise == ThresholdNoise::laplace ? Variate::laplace : Variate::exponential;
      AboveThreshold law(settings);
      Source source = fresh(), same = fresh();
      double threshold = 0.0;
      std::uint64_t left = 0;
      for (int k = 0; k < 60; ++k) {
        if (left == 0) {
          threshold = scale * drawn(same, kind, 1)[0];
          left = 3;
        }
        const double excess = 0.5 * (k % 9) - 2.0;
        const bool alarm = excess + 0.75 * drawn(same, kind, 1)[0] >= threshold;
        CHECK(law.test_armed_once(excess, source, !law.armed()) == alarm);
        if (alarm) --left;
        CHECK(law.alarms_raised(1) == 3 - left);
        CHECK(positions_of(source) == positions_of(same));
      }
      for (const std::uint64_t told : {0, 1, 3, 4}) {
        for (const double held : {0.0, 1.5, -1.5, kNan, kInfinity}) {
          const bool possible = told <= 3 && std::isfinite(held) && (scale > 0.0 || held == 0.0) &&
                                (held >= 0.0 || noise == ThresholdNoise::laplace);
          Archive archive;
          archive.word(told);
          archive.real(held);
          const std::string state = archive.take();
          ArchiveReader reader(state);
          AboveThreshold other(settings);
          if (!possible) {
            CHECK_THROWS_AS(other.read(reader), StateError);
            continue;
          }
          other.read(reader);
          Archive written;
          other.write(written);
          CHECK(written.take() == state);
          CHECK(other.armed() == (told > 0));
        }
      }
    }
  }
  Source silent = fresh();
  AboveThreshold plain({});
  plain.arm(silent);
  CHECK_FALSE(plain.test(-1e-300, silent));
  CHECK(plain.test(0.0, silent));
  const double wrong[] = {-1.0, kNan, kInfinity};
  for (const double each : wrong) {
    CHECK_THROWS_AS(AboveThreshold({.threshold_scale = each}), std::invalid_argument);
    CHECK_THROWS_AS(AboveThreshold({.query_scale = each}), std::invalid_argument);
  }
  CHECK_THROWS_AS(AboveThreshold({.alarms = 0}), std::invalid_argument);
}

TEST_CASE(
    "coins of a coupled learner: when they are tossed, with which odds, and what is counted") {
  for (const std::uint64_t horizon : {1, 2, 6, 7, 40}) {
    for (const std::uint64_t block : {1, 2, 3, 7}) {
      for (const double forced : {0.0, 0x1p-10, 0.3, 1.0}) {
        for (const std::uint64_t cap : {0ULL, 1ULL, 3ULL, ~0ULL}) {
          const SwitchSettings settings{horizon, block, forced, cap};
          SwitchRule rule(settings);
          Source source = fresh(), same = fresh(), made(kKey, 8);
          std::uint64_t switches = 0, draws = 0;
          double stay = 0.0;
          for (std::uint64_t t = 1; t <= horizon; ++t) {
            const std::uint64_t end = (t + block - 1) / block * block;
            const bool decides = switches < cap && end < horizon;
            CHECK(rule.open() == decides);
            CHECK(rule.wants_factor() == (decides && forced < 1.0));
            const bool publicly = made.uniform() < 0.25;
            const double factor = made.uniform() < 0.1 ? -800.0 : std::log(made.uniform());
            stay = decides && forced < 1.0 ? stay + factor : 0.0;
            bool switching = decides && t == end;
            if (switching && forced < 1.0 && !publicly) {
              ++draws;
              switching = std::log(same.uniform()) >= std::log1p(-forced) + stay;
            }
            if (t == end) stay = 0.0;
            switches += switching ? 1 : 0;
            CHECK(rule.advance(factor, source, publicly) == switching);
            CHECK(rule.round() == t);
            CHECK(rule.switches() == switches);
            CHECK(rule.draws() == draws);
            CHECK(rule.log_stay() == stay);
            CHECK(positions_of(source) == positions_of(same));
          }
          if (horizon != 7) continue;
          for (const std::uint64_t round : {0, 1, 4, 6, 7, 8}) {
            for (const std::uint64_t told : {0, 1, 2, 3, 4, 6, 7, 8}) {
              for (const std::uint64_t drew : {0, 1, 2, 3, 6, 7, 8}) {
                for (const double held : {0.0, -0.5, 0.5, kNan}) {
                  const bool within = round % block != 0;
                  const bool possible = round <= horizon && told <= std::min(round / block, cap) &&
                                        drew <= round / block &&
                                        (held == 0.0 || (held < 0.0 && within));
                  Archive archive;
                  for (const std::uint64_t word : {round, told, drew}) archive.word(word);
                  archive.real(held);
                  const std::string state = archive.take();
                  ArchiveReader reader(state);
                  SwitchRule other(settings);
                  bool read = true;
                  try {
                    other.read(reader);
                  } catch (const StateError&) {
                    read = false;
                  }
                  CHECK(read == possible);
                  Archive written;
                  other.write(written);
                  CHECK(written.take() == (possible ? state : std::string(32, '\0')));
                }
              }
            }
          }
        }
      }
    }
  }
  const auto refuses = [](const SwitchSettings& settings) {
    CHECK_THROWS_AS(SwitchRule{settings}, std::invalid_argument);
  };
  refuses({.horizon = 0});
  refuses({.block = 0});
  for (const double forced : {-0.1, 1.1, kNan}) refuses({.forced = forced});
  for (const double log_ratio : {0.0, 1e-3, 0.7, 30.0}) {
    Source source = fresh(), same = fresh();
    for (int k = 0; k < 30; ++k) {
      CHECK(lies_in_excess(log_ratio, source) == (same.uniform() > std::exp(-log_ratio)));
    }
  }
}

TEST_CASE("gamma variates are those of the published rejection, in one call or in many") {
  for (const double shape : {0.05, 0.5, 1.0, 1.2, 8.5, 1000.0}) {
    constexpr std::size_t n = 3000;
    Source source = fresh(), single = fresh(), same = fresh();
    Reals out(n);
    noise::gammas(source, shape, out);
    // Marsaglia and Tsang (2000), one attempt after the other; below 1 with a boost.
    const double d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
    for (std::size_t i = 0; i < n; ++i) {
      double v = 0.0;
      for (bool kept = false; !kept;) {
        const double x = same.gaussian(), e = same.exponential(), t = 1.0 + c * x;
        v = t * t * t;
        kept = t > 0.0 && -e < 0.5 * x * x + d - d * v + d * std::log(v);
      }
      double value = d * v;
      if (shape < 1.0) value *= std::exp(-same.exponential() / shape);
      CHECK(out[i] == doctest::Approx(value).epsilon(1e-12).scale(0));
      CHECK(noise::gamma(single, shape) == out[i]);
    }
    CHECK(positions_of(source) == positions_of(same));
    CHECK(positions_of(single) == positions_of(same));
  }
}

TEST_CASE("vectors of a norm's law are directions, signs and a radius") {
  for (const double order : {1.0, 1.5, 2.0, 3.0, kInfinity}) {
    for (const std::size_t d : {1, 2, 64, 65, 1200}) {
      noise::GeneralizedGaussian law(static_cast<Index>(d), order, 1.7);
      Source source = fresh(), same = fresh();
      const bool roots = order != 1.0 && std::isfinite(order);
      for (std::uint64_t k = 1; k <= 2; ++k) {
        Reals out(d), expected(d);
        law.sample(source, out);
        if (order == 2.0) {
          expected = drawn(same, Variate::gaussian, d);
          for (double& each : expected) each *= 1.7;
        } else {
          expected = drawn(same, order == 1.0 ? Variate::exponential : Variate::uniform, d);
          for (double& each : expected) {
            if (roots) each *= std::pow(noise::gamma(same, 1.0 + 1.0 / order), 1.0 / order);
          }
          std::vector<std::uint64_t> signs((d + 63) / 64);
          for (std::uint64_t& each : signs) each = same.word();
          double norm = 0.0;
          for (const double each : expected) {
            norm = std::isinf(order) ? std::max(norm, each) : norm + std::pow(each, order);
          }
          if (std::isfinite(order)) norm = std::pow(norm, 1.0 / order);
          const double half = 0.5 * static_cast<double>(d);
          const double factor = 1.7 * std::sqrt(2.0 * noise::gamma(same, half)) / norm;
          for (std::size_t i = 0; i < d; ++i) {
            expected[i] *= (signs[i / 64] >> (i % 64) & 1) != 0 ? -factor : factor;
          }
        }
        for (std::size_t i = 0; i < d; ++i) {
          CHECK(out[i] == doctest::Approx(expected[i]).epsilon(1e-12).scale(0));
        }
        CHECK(positions_of(source) == positions_of(same));
        CHECK(law.accounts_for(source, k));
        CHECK_FALSE(law.accounts_for(source, k - 1));
        CHECK_FALSE(law.accounts_for(source, k + 1));
      }
      // Positions of two vectors with the fewest attempts, and what is beside them.
      const std::uint64_t attempts = 2 * (order == 2.0 ? d : roots ? d + 1 : 1);
      const std::uint64_t boosts = d == 1 ? 2 : 0;
      Positions at{2 * ((d + 63) / 64),
                   order == 1.0 ? 0 : 2 * d,
                   attempts,
                   attempts + boosts + (order == 1.0 ? 2 * d : 0),
                   0,
                   0};
      const auto accounts = [&](std::size_t kind, std::uint64_t by) {
        Positions moved = at;
        moved[kind] += by;
        if (kind == 2 && order != 2.0) moved[3] += by;
        return law.accounts_for(*placed(moved), 2);
      };
      const std::uint64_t back = ~0ULL;
      CHECK(accounts(0, 0));
      if (order == 2.0) {
        CHECK_FALSE(accounts(2, 1));
        CHECK_FALSE(accounts(2, back));
        continue;
      }
      for (const std::size_t kind : {0, 1, 3}) CHECK_FALSE(accounts(kind, 1));
      for (const std::size_t kind : {0, 2, 3}) CHECK_FALSE(accounts(kind, back));
      CHECK(accounts(2, 1));  // an attempt more
      CHECK(accounts(2, (1ULL << 60) - 1 - attempts));
      CHECK_FALSE(accounts(2, (1ULL << 60) - attempts));
    }
  }
  CHECK_THROWS_AS(noise::GeneralizedGaussian(0, 2.0, 1.0), std::invalid_argument);
  for (const double order : {0.9, kNan}) {
    CHECK_THROWS_AS(noise::GeneralizedGaussian(1, order, 1.0), std::invalid_argument);
  }
  for (const double scale : {-1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(noise::GeneralizedGaussian(1, 2.0, scale), std::invalid_argument);
  }
}
