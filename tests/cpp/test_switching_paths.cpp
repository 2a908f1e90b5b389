// Exponential weights over sequences of experts: messages against plain recursions, steps, state.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/samplers/switching_paths.hpp"

using namespace dpoco;
using random::Key;
using random::Source;
using random::Variate;
using samplers::make_at_most_paths;
using samplers::make_share_paths;
using samplers::PathState;
using samplers::SwitchingPaths;

namespace {

// Where one expert after the other is the only good one, nine rounds each.
double loss_at(std::size_t t, std::size_t j, std::size_t n) { return t / 9 % n == j ? 0.0 : 1.0; }

std::vector<double> row_at(std::size_t t, std::size_t n) {
  std::vector<double> row(n);
  for (std::size_t j = 0; j < n; ++j) row[j] = loss_at(t, j, n);
  return row;
}

long double add_logs(long double a, long double b) {
  if (a < b) std::swap(a, b);
  return std::isinf(b) ? a : a + std::log1p(std::exp(b - a));
}

std::vector<double> law_of(const SwitchingPaths& paths) {
  std::vector<double> law(paths.levels() * paths.experts());
  paths.nonprivate_law(law);
  return law;
}

// Logarithms of the weights at one round, completions not included.
void advance(std::vector<long double>& alpha, std::size_t n, std::size_t levels, std::size_t t,
             double rate) {
  std::vector<long double> v = alpha;
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] -= static_cast<long double>(rate * loss_at(t, i % n, n));
  }
  alpha = v;
  for (std::size_t c = 1; c < levels; ++c) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) {
        if (i != j) alpha[c * n + j] = add_logs(alpha[c * n + j], v[(c - 1) * n + i]);
      }
    }
  }
}

using Maker = std::function<std::unique_ptr<SwitchingPaths>()>;

}  // namespace

TEST_CASE("weights of sequences with few switches, also far below the range of doubles") {
  constexpr std::size_t n = 3;
  constexpr std::size_t rounds = 60;
  constexpr std::size_t levels = 4;
  for (const double rate : {0.1, 3.0, 400.0}) {
    const auto paths = make_at_most_paths(n, rounds, levels - 1, rate);
    std::vector<long double> alpha(levels * n, -std::numeric_limits<long double>::infinity());
    for (std::size_t j = 0; j < n; ++j) alpha[j] = 0.0L;
    for (std::size_t t = 0; t < rounds; ++t) {
      std::vector<long double> want = alpha;
      long double most = -std::numeric_limits<long double>::infinity();
      for (std::size_t c = 0; c < levels; ++c) {
        long double completions = 0.0L;
        long double term = 1.0L;
        for (std::size_t k = 0; k + c < levels; ++k) {
          completions += term;
          term *= static_cast<long double>(rounds - 1 - t) - static_cast<long double>(k);
          term *= static_cast<long double>(n - 1) / static_cast<long double>(k + 1);
        }
        for (std::size_t j = 0; j < n; ++j) {
          want[c * n + j] += std::log(completions);
          most = std::max(most, want[c * n + j]);
        }
      }
      long double sum = 0.0L;
      for (const auto each : want) sum += std::exp(each - most);
      const auto law = law_of(*paths);
      for (std::size_t i = 0; i < law.size(); ++i) {
        CHECK(std::fabs(law[i] - static_cast<double>(std::exp(want[i] - most) / sum)) < 1e-11);
      }
      paths->learn(row_at(t, n));
      advance(alpha, n, levels, t, rate);
    }
  }
}

TEST_CASE("shared weights never vanish and a share of 1 - 1/N forgets everything") {
  constexpr std::size_t n = 4;
  const auto forgetful = make_share_paths(n, 0.75, 2.0);
  const auto tiny = make_share_paths(n, 1e-100, 700.0);
  for (std::size_t t = 0; t < 200; ++t) {
    forgetful->learn(row_at(t, n));
    tiny->learn(row_at(t, n));
    for (const double each : law_of(*forgetful)) CHECK(each == doctest::Approx(0.25));
    double sum = 0.0;
    for (const double each : law_of(*tiny)) {
      CHECK(each >= 3e-101);
      sum += each;
    }
    CHECK(sum == doctest::Approx(1.0));
  }
}

TEST_CASE("steps of the prior: one variate, two where the expert changes, within the switches") {
  const Maker makers[] = {
      [] { return make_share_paths(5, 0.3, 1.0); },
      [] { return make_at_most_paths(5, 50, 6, 1.0); },
      [] { return make_at_most_paths(5, 50, 0, 1.0); },
  };
  for (const auto& make : makers) {
    Source source(Key{3}, 1);
    std::size_t moved = 0;
    for (int run = 0; run < 200; ++run) {
      const auto paths = make();
      PathState state = paths->start(source);
      for (int t = 1; t < 50; ++t) {
        paths->skip();
        const auto before = source.position(Variate::uniform);
        const PathState next = paths->follow(state, source);
        const std::uint64_t moves = next.expert != state.expert;
        CHECK(next.expert < 5);
        CHECK(next.level < paths->levels());
        if (paths->levels() > 1) CHECK(next.level == state.level + moves);
        const bool fixed = paths->move_chance(0) == 0.0 && paths->levels() == 1;
        CHECK(source.position(Variate::uniform) - before == (fixed ? 0 : 1 + moves));
        moved += moves;
        state = next;
      }
    }
    // 200 runs: 0.3 of 49 steps; E(k) = 5.986 of at most 6 switches; none.
    const double mean = static_cast<double>(moved) / 200.0;
    const double want = make()->levels() > 1 ? 5.96 : (make()->move_chance(0) > 0.0 ? 14.7 : 0.0);
    CHECK(std::fabs(mean - want) <= (want == 14.7 ? 1.4 : 0.1));
  }
}

TEST_CASE("messages are restored bit for bit; foreign ones are refused") {
  const Maker makers[] = {
      [] { return make_share_paths(7, 0.3, 1.0); },
      [] { return make_at_most_paths(7, 200, 3, 1.0); },
      [] { return make_at_most_paths(7, 200, 0, 1.0); },
  };
  for (const auto& make : makers) {
    const auto whole = make();
    auto split = make();
    for (std::size_t t = 0; t < 150; ++t) {
      whole->learn(row_at(t, 7));
      split->learn(row_at(t, 7));
      Archive archive;
      split->write(archive);
      const std::string bytes = archive.take();
      split = make();
      ArchiveReader reader(bytes);
      split->read(reader);
      reader.finish();
      CHECK(law_of(*split) == law_of(*whole));
    }
    for (const auto& other : makers) {
      Archive archive;
      other()->write(archive);
      std::string bytes = archive.take();
      bytes.back() = '\xff';
      ArchiveReader reader(bytes);
      const auto target = make();
      CHECK_THROWS_AS((target->read(reader), reader.finish()), StateError);
    }
  }
}

// The state after `rounds` rounds with the double at `place` replaced; places from the end count
// down.
std::string spoiled(const Maker& make, std::size_t rounds, std::ptrdiff_t place, double value) {
  const auto paths = make();
  for (std::size_t t = 0; t < rounds; ++t) paths->learn(row_at(t, 3));
  Archive archive;
  paths->write(archive);
  std::string bytes = archive.take();
  const auto size = static_cast<std::ptrdiff_t>(bytes.size());
  std::memcpy(bytes.data() + (place < 0 ? size + 8 * place : 8 * place), &value, sizeof value);
  return bytes;
}

bool restores(const Maker& make, const std::string& bytes) {
  const auto target = make();
  ArchiveReader reader(bytes);
  try {
    target->read(reader);
  } catch (const StateError&) {
    return false;
  }
  for (std::size_t t = 0; t < 60; ++t) target->learn(row_at(t, 3));
  for (const double chance : law_of(*target)) CHECK(chance >= 0.0);
  return true;
}

TEST_CASE("weights and costs that no run reaches are refused") {
  const Maker at_most = [] { return make_at_most_paths(3, 200, 2, 0.5); };
  // From the end: two levels of three costs, their number, three offsets.
  for (const double value : {1.7e308, -1.7e308, 1e150, -2e3, std::nan("")}) {
    for (const std::ptrdiff_t row : {-1, -3, -4, -6}) {
      CHECK_FALSE(restores(at_most, spoiled(at_most, 20, row, value)));
    }
    if (value == -2e3) continue;  // may be an offset
    for (const std::ptrdiff_t offset : {-8, -9}) {
      CHECK_FALSE(restores(at_most, spoiled(at_most, 20, offset, value)));
    }
  }
  CHECK_FALSE(restores(at_most, spoiled(at_most, 20, -10, 1.0)));  // of level 0
  CHECK(restores(at_most, spoiled(at_most, 20, -1, 1e149)));
  CHECK(restores(at_most, spoiled(at_most, 20, -8, -1e149)));

  const Maker share = [] { return make_share_paths(3, 0.1, 0.5); };
  for (const double value : {5e-324, 1e-300, 0.02, 2.1, -1.0, std::nan("")}) {
    CHECK_FALSE(restores(share, spoiled(share, 20, -2, value)));
  }
  CHECK(restores(share, spoiled(share, 20, -2, 0.05)));  // the least that rounds leave
}

TEST_CASE("losses are rounded to a grid on which their sums are exact") {
  const auto paths = make_at_most_paths(2, 1000, 0, 1.0);
  const double losses[2] = {0.1, 1.0};
  const double rounded = paths->loss(losses, 0);
  CHECK(rounded == std::nearbyint(0.1 * 0x1p46) * 0x1p-46);
  CHECK(paths->loss(losses, 1) == 1.0);
}

TEST_CASE("no paths for arguments out of range") {
  CHECK_THROWS_AS(make_share_paths(3, 0.7, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(make_share_paths(3, 0.0, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(make_share_paths(3, 0.1, 0.0), std::invalid_argument);
  CHECK_THROWS_AS(make_share_paths(0, 0.1, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(make_at_most_paths(3, 0, 1, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(make_at_most_paths(3, 10, 1, std::nan("")), std::invalid_argument);
}
