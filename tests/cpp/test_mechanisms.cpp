// Streaming noise processes against dense matrices, allocation-free rounds, bounds of the horizon.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"

using namespace dpoco;
using namespace dpoco::mechanisms;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr std::uint64_t kHorizons[] = {1, 2, 3, 7, 8, 9, 31, 32, 33};

BltParameters blt_parameters() {
  BltParameters p;
  p.decay = {0.001, 0.01, 0.1, 0.2, 0.6};
  p.omega = {0.03, 0.05, 0.09, 0.17, 0.16};
  return p;
}

// Draw j of a process with scale 1 in dimension d is Gaussians j d .. j d + d - 1 of its source.
std::vector<double> draws(std::size_t count) {
  Source source(Key{}, 3);
  std::vector<double> z(count);
  source.fill(Variate::gaussian, z);
  return z;
}

void check_rows(NoiseProcess& process, std::uint64_t n, const Eigen::MatrixXd& rows) {
  constexpr Index d = 3;
  Source source(Key{}, 3);
  const auto z = draws(static_cast<std::size_t>(rows.cols() * d));
  std::vector<double> released(static_cast<std::size_t>(n) * d);
  // One call for the first round, one for all others: the split must not matter.
  process.advance(1, source, std::span(released).first(d));
  process.advance(2, source, std::span(released).subspan(d));
  for (std::uint64_t t = 1; t <= n; ++t) {
    const double* noise = released.data() + (t - 1) * d;
    for (Index i = 0; i < d; ++i) {
      double want = 0.0;
      for (Index j = 0; j < rows.cols(); ++j) {
        want += rows(static_cast<Index>(t) - 1, j) * z[static_cast<std::size_t>(j * d + i)];
      }
      CHECK(std::fabs(noise[i] - want) <= 1e-12 * (1.0 + std::fabs(want)));
    }
  }
}

}  // namespace

TEST_CASE("tree: a prefix is the sum of its dyadic nodes, each drawn once") {
  for (std::uint64_t n : kHorizons) {
    Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(static_cast<Index>(n), static_cast<Index>(n));
    for (std::uint64_t t = 1; t <= n; ++t) {
      // The node ending at e is drawn in round e: walk down the binary expansion of t.
      for (std::uint64_t e = t; e > 0; e &= e - 1) {
        rows(static_cast<Index>(t) - 1, static_cast<Index>(e) - 1) = 1.0;
      }
      CHECK(rows.row(static_cast<Index>(t) - 1).squaredNorm() == std::popcount(t));
    }
    check_rows(*make_tree(3, n, {2.0, 1.0}), n, rows);
  }
}

TEST_CASE("toeplitz: the rows are those of the square root of the prefix matrix") {
  for (std::uint64_t n : kHorizons) {
    const auto size = static_cast<Index>(n);
    Eigen::MatrixXd root = Eigen::MatrixXd::Zero(size, size);
    for (Index i = 0; i < size; ++i) {
      double f = 1.0;
      for (Index k = 0; k <= i; ++k) {
        if (k > 0) f *= 1.0 - 1.0 / (2.0 * static_cast<double>(k));
        root(i, i - k) = f;
      }
    }
    const Eigen::MatrixXd square = root * root;
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j <= i; ++j) CHECK(square(i, j) == doctest::Approx(1.0).epsilon(1e-10));
    }
    check_rows(*make_toeplitz(3, n, {2.0, 1.0}), n, root);
  }
}

TEST_CASE("blt: rows times the Toeplitz matrix of its coefficients give the prefix matrix") {
  const auto parameters = blt_parameters();
  for (std::uint64_t n : kHorizons) {
    const auto size = static_cast<Index>(n);
    Eigen::MatrixXd c = Eigen::MatrixXd::Identity(size, size);
    for (Index i = 1; i < size; ++i) {
      double value = 0.0;
      for (std::size_t b = 0; b < parameters.decay.size(); ++b) {
        value +=
            parameters.omega[b] * std::pow(1.0 - parameters.decay[b], static_cast<double>(i - 1));
      }
      for (Index j = 0; i + j < size; ++j) c(i + j, j) = value;
    }
    const Eigen::MatrixXd prefix = Eigen::MatrixXd::Ones(size, size).triangularView<Eigen::Lower>();
    const Eigen::MatrixXd rows = prefix * c.inverse();
    check_rows(*make_blt(3, {2.0, 1.0}, parameters), n, rows);
  }
}

TEST_CASE("the horizon ends before noise is drawn, and the state is unchanged") {
  auto source = std::make_unique<Source>(Key{}, 3);
  ContinualSum sum(2, 3, make_tree(2, 3, {2.0, 1.0}), 1.0, std::move(source));
  const double g[2] = {1.0, -1.0};
  double out[2];
  for (int t = 0; t < 3; ++t) sum.push(g, out);
  Archive before;
  sum.write(before);
  CHECK_THROWS_AS(sum.push(g, out), HorizonExceeded);
  std::vector<double> wide(sum.width(), 1.0), released(wide);
  CHECK_THROWS_AS(sum.add_one(1.0, wide, released), HorizonExceeded);
  Archive after;
  sum.write(after);
  CHECK(before.take() == after.take());
  CHECK(sum.source().position(Variate::gaussian) == 6);
}

TEST_CASE("a clipper bounds summands and drops non-finite ones") {
  const losses::RecordClipper clipper(2, 1.0, 2.0, std::numeric_limits<double>::infinity());
  ContinualSum sum(2, 4, make_silence(2), 0.0, std::make_unique<Source>(Key{}, 0), clipper);
  double out[2];
  const double large[2] = {30.0, 40.0};
  sum.push(large, out);
  CHECK(std::hypot(out[0], out[1]) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(std::hypot(out[0], out[1]) <= 1.0 + 1e-15);
  const double bad[2] = {std::nan(""), 1.0};
  const double kept[2] = {out[0], out[1]};
  sum.push(bad, out);
  CHECK(out[0] == kept[0]);
  CHECK(out[1] == kept[1]);
}

namespace {

constexpr std::uint64_t kRounds = 33;
constexpr double kGrid = 0x1p-20;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Factorisation kFactorisations[] = {Factorisation::tree, Factorisation::toeplitz,
                                             Factorisation::blt, Factorisation::blt_normalised};

BltParameters blocks() {
  BltParameters p = blt_parameters();
  p.ends = {1, 9, 20, kRounds};
  p.levels = {1.0, 0.7, 0.7, 0.4};
  return p;
}

SumSettings settings_of(Factorisation kind, const NoiseLaw& law, Index d = 3) {
  SumSettings s{d, kRounds, kind, law.order, law.scale, {law.grid, 100.0}, {}};
  if (kind == Factorisation::blt) s.blt = blt_parameters();
  if (kind == Factorisation::blt_normalised) s.blt = blocks();
  return s;
}

std::unique_ptr<NoiseProcess> process_of(Factorisation kind, const NoiseLaw& law) {
  switch (kind) {
    case Factorisation::tree:
      return make_tree(3, kRounds, law);
    case Factorisation::toeplitz:
      return make_toeplitz(3, kRounds, law);
    default:
      return make_blt(3, law, settings_of(kind, law).blt);
  }
}

// C of the parameters, and the part of the scale that the draw of each round has.
Eigen::MatrixXd toeplitz_of(const BltParameters& p) {
  const auto size = static_cast<Index>(kRounds);
  Eigen::MatrixXd c = Eigen::MatrixXd::Identity(size, size);
  for (Index i = 1; i < size; ++i) {
    double value = 0.0;
    for (std::size_t b = 0; b < p.decay.size(); ++b) {
      value += p.omega[b] * std::pow(1.0 - p.decay[b], static_cast<double>(i - 1));
    }
    for (Index j = 0; i + j < size; ++j) c(i + j, j) = value;
  }
  return c;
}

Eigen::VectorXd levels_of(const BltParameters& p) {
  Eigen::VectorXd levels = Eigen::VectorXd::Ones(static_cast<Index>(kRounds));
  std::size_t block = 0;
  for (std::uint64_t t = 1; t <= kRounds && !p.ends.empty(); ++t) {
    if (t > p.ends[block]) ++block;
    levels[static_cast<Index>(t) - 1] = p.levels[block];
  }
  return levels;
}

const std::vector<NoiseLaw> kLaws = {{2.0, 1.7}, {1.0, 0.3}, {3.0, 2.0}, {2.0, 1.7, kGrid}};

template <class Part>
std::string state_of(const Part& part) {
  Archive archive;
  part.write(archive);
  return archive.take();
}

double real_at(const std::string& state, std::size_t word) {
  double value = 0.0;
  std::memcpy(&value, state.data() + 8 * word, 8);
  return value;
}

// Whether a process of this kind takes a state with a word replaced.
template <class Word>
bool takes(Factorisation kind, const NoiseLaw& law, std::string state, std::size_t at, Word word) {
  std::memcpy(state.data() + 8 * at, &word, 8);
  const auto process = process_of(kind, law);
  ArchiveReader reader(state);
  try {
    process->read(reader, kRounds - 3);
    reader.finish();
  } catch (const StateError&) {
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("noise goes on from its state, which holds numbers that such noise can have") {
  for (const Factorisation kind : kFactorisations) {
    for (const NoiseLaw& law : kLaws) {
      constexpr std::uint64_t n = kRounds - 3;
      const auto process = process_of(kind, law), copy = process_of(kind, law);
      const Correlation told = process->correlation();
      CHECK(told.factorisation == kind);
      CHECK(told.law.order == law.order);
      CHECK(told.law.scale == (law.on_lattice() ? law.scale / kGrid : law.scale));
      CHECK(told.law.grid == (law.on_lattice() ? 1.0 : 0.0));
      const BltParameters blt = settings_of(kind, law).blt;
      CHECK(told.blt.decay == blt.decay);
      CHECK(told.blt.omega == blt.omega);
      CHECK(told.blt.ends == blt.ends);
      CHECK(told.blt.levels == blt.levels);
      Source source(Key{}, 3);
      std::vector<double> out(3 * kRounds), again(3 * kRounds);
      CHECK(process->matches(0, source));
      const std::string silent = state_of(*process);
      std::size_t counts = 0;  // all else is zeros
      for (std::size_t at = 0; at < silent.size() / 8; ++at) {
        counts += real_at(silent, at) != 0.0 ? 1 : 0;
      }
      CHECK(counts <= 2);
      process->advance(1, source, std::span(out).first(3 * n));
      CHECK(process->matches(n, source));
      CHECK_FALSE(process->matches(n - 1, source));
      CHECK_FALSE(process->matches(n + 1, source));
      const std::string state = state_of(*process);
      ArchiveReader reader(state);
      copy->read(reader, n);
      reader.finish();
      CHECK(state_of(*copy) == state);
      Source same(Key{}, 9);
      const std::string drawn = state_of(source);
      ArchiveReader behind(drawn);
      same.read(behind);
      process->advance(n + 1, source, std::span(out).first(9));
      copy->advance(n + 1, same, std::span(again).first(9));
      CHECK(std::equal(out.begin(), out.begin() + 9, again.begin()));
      // Words of counts, then reals.
      const std::size_t words = state.size() / 8;
      std::size_t at = 0;
      if (kind == Factorisation::toeplitz) {
        CHECK(takes(kind, law, state, at, n));
        for (const std::uint64_t count : {n - 1, n + 1}) {
          CHECK_FALSE(takes(kind, law, state, at, count));
        }
        ++at;
      }
      const double buffer = std::ldexp(1.0, std::ilogb(law.scale) - 43) / kGrid;
      bool first = true;
      while (at < words) {
        std::uint64_t count = 0;
        std::memcpy(&count, state.data() + 8 * at, 8);
        CHECK(takes(kind, law, state, at, count));
        for (const std::uint64_t wrong : {count - 1, count + 1, count + 3, count - 3}) {
          CHECK_FALSE(takes(kind, law, state, at, wrong));
        }
        const bool buffers =
            first && (kind == Factorisation::blt || kind == Factorisation::blt_normalised);
        const double unit = buffers ? buffer : 1.0;
        for (const std::size_t real : {at + 1, at + static_cast<std::size_t>(count)}) {
          for (const double wrong : {kNan, kInfinity, -kInfinity}) {
            CHECK_FALSE(takes(kind, law, state, real, wrong));
          }
          for (const double sign : {-1.0, 1.0}) {
            for (const double beside : {0.5, 0x1p50, 0x1p50 + 1.0}) {
              CHECK(takes(kind, law, state, real, sign * beside * unit) == !law.on_lattice());
            }
            CHECK(takes(kind, law, state, real, sign * (0x1p50 - 1.0) * unit));
          }
        }
        at += 1 + static_cast<std::size_t>(count);
        first = false;
      }
      CHECK(at == words);
    }
  }
}

TEST_CASE("noise on a lattice is exact sums of integers that are drawn, and of rounded ones") {
  const NoiseLaw law{2.0, 1.7, kGrid};
  const auto size = static_cast<Index>(kRounds);
  const Eigen::MatrixXd prefix = Eigen::MatrixXd::Ones(size, size).triangularView<Eigen::Lower>();
  for (const Factorisation kind : kFactorisations) {
    Source source(Key{}, 3), same(Key{}, 3);
    std::vector<double> out(3 * kRounds);
    const auto process = process_of(kind, law);
    for (std::uint64_t t = 1; t <= kRounds; t += 7) {  // across the ends of blocks
      const std::size_t entries = 3 * std::min<std::uint64_t>(7, kRounds + 1 - t);
      process->advance(t, source, std::span(out).subspan(3 * (t - 1), entries));
    }
    const auto next = [&](double level) {
      std::vector<double> z(3);
      noise::RoundedGaussian(level * (law.scale / kGrid)).fill(same, std::span(z).first(3));
      return z;
    };
    const BltParameters p = settings_of(kind, law).blt;
    const Eigen::VectorXd levels = levels_of(p);
    const Eigen::MatrixXd rows = prefix * levels.asDiagonal() * toeplitz_of(p).inverse() *
                                 levels.cwiseInverse().asDiagonal();
    std::vector<std::vector<double>> z;
    for (std::uint64_t t = 1; t <= kRounds; ++t) {
      z.push_back(next(levels[static_cast<Index>(t) - 1]));
      for (std::size_t i = 0; i < 3; ++i) {
        const double found = out[3 * (t - 1) + i];
        double exact = 0.0;
        for (std::uint64_t e = t; e > 0; e &= e - 1) {
          if (kind == Factorisation::tree) exact += z[e - 1][i];
        }
        if (kind == Factorisation::toeplitz) {
          double past = 0.0, f = 1.0;
          for (std::uint64_t k = 1; k < t; ++k) {
            f *= 1.0 - 0.5 / static_cast<double>(k);
            past += f * z[t - 1 - k][i];
          }
          exact = std::nearbyint(past) + z[t - 1][i];
        }
        if (p.decay.empty()) {
          CHECK(found == exact);
          continue;
        }
        for (std::size_t j = 0; j < t; ++j) {
          exact += rows(static_cast<Index>(t) - 1, static_cast<Index>(j)) * z[j][i];
        }
        CHECK(found == std::nearbyint(found));
        CHECK(std::fabs(found - exact) <= static_cast<double>(t));  // a rounding a round
      }
    }
    CHECK(source.position(Variate::gaussian) == same.position(Variate::gaussian));
  }
}

TEST_CASE("draws of later blocks are smaller by their levels, however rounds are split") {
  const BltParameters p = blocks();
  const auto size = static_cast<Index>(kRounds);
  const Eigen::MatrixXd prefix = Eigen::MatrixXd::Ones(size, size).triangularView<Eigen::Lower>();
  const Eigen::MatrixXd rows = prefix * levels_of(p).asDiagonal() * toeplitz_of(p).inverse();
  check_rows(*make_blt(3, {2.0, 1.0}, p), kRounds, rows);
  check_rows(*make_blt(3, {2.0, 0x1p-9}, p), kRounds, 0x1p-9 * rows);
  Source source(Key{}, 3);
  const auto process = make_blt(3, {2.0, 1.0}, p);
  std::vector<double> out(3 * (kRounds + 1));
  process->advance(1, source, std::span(out).first(3 * kRounds));
  CHECK_THROWS_AS(process->advance(kRounds + 1, source, std::span(out).first(3)), std::logic_error);
}

TEST_CASE("processes hold their own parameters, however alike they are to others'") {
  const BltParameters first = blocks();
  const auto differs = [&](auto change) {
    const auto kept = make_blt(1, {2.0, 1.0}, first);
    BltParameters p = first;
    change(p);
    const Correlation told = make_blt(1, {2.0, 1.0}, p)->correlation();
    CHECK(told.blt.decay == p.decay);
    CHECK(told.blt.omega == p.omega);
    CHECK(told.blt.ends == p.ends);
    CHECK(told.blt.levels == p.levels);
    CHECK(kept->correlation().blt.levels == first.levels);
  };
  differs([](BltParameters& p) { p.decay[2] = 0.15; });
  differs([](BltParameters& p) { p.omega[2] = 0.08; });
  differs([](BltParameters& p) { p.ends[1] = 8; });
  differs([](BltParameters& p) { p.levels[3] = 0.3; });
}

TEST_CASE("silence is zeros, and leaves its source alone") {
  const auto silence = make_silence(3);
  Source source(Key{}, 3);
  std::vector<double> out(7, 5.0);
  silence->advance(1, source, std::span(out).first(6));
  CHECK(out == std::vector<double>{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0});
  CHECK(silence->matches(2, source));
  CHECK(silence->correlation().law.scale == 0.0);
  for (int kind = 0; kind < 6; ++kind) CHECK(source.position(static_cast<Variate>(kind)) == 0);
}

TEST_CASE("processes and sums refuse what they cannot hold") {
  const NoiseLaw law{2.0, 1.0}, on_lattice{1.0, 1.0, kGrid};
  for (const Index d : {0, -1}) {
    CHECK_THROWS_AS(make_tree(d, 1, law), std::invalid_argument);
    CHECK_THROWS_AS(make_silence(d), std::invalid_argument);
  }
  CHECK_THROWS_AS(make_tree(1, 0, law), std::invalid_argument);
  CHECK_THROWS_AS(make_tree(1, 1, on_lattice), std::invalid_argument);
  const auto refuses = [&](auto change) {
    BltParameters p = blocks();
    change(p);
    CHECK_THROWS_AS(make_blt(1, law, p), std::invalid_argument);
  };
  refuses([](BltParameters& p) { p.omega.pop_back(); });
  refuses([](BltParameters& p) { p.omega.clear(), p.decay.clear(); });
  refuses([](BltParameters& p) { p.levels.pop_back(); });
  refuses([](BltParameters& p) { p.levels[0] = 0.9; });
  refuses([](BltParameters& p) { p.levels[1] = 0.0; });
  refuses([](BltParameters& p) { p.levels[3] = 0.75; });
  refuses([](BltParameters& p) { p.levels[2] = kNan; });
  refuses([](BltParameters& p) { p.ends[1] = 1; });
  refuses([](BltParameters& p) { p.ends[0] = 0; });
  const auto made = [&](double scale, const Lattice& lattice, std::uint64_t horizon = 1) {
    SumSettings s{2, horizon, Factorisation::tree, 2.0, scale, lattice, {}};
    return make_sum(s, std::make_unique<Source>(Key{}, 0));
  };
  for (const double limit : {-1.0, kNan, 0x1p50 + 1.0}) {
    CHECK_THROWS_AS(made(1.0, {kGrid, limit}), std::invalid_argument);
  }
  CHECK(made(1.0, {kGrid, 0x1p50}, 1ULL << 11).lattice().limit == 0x1p50);
  CHECK_THROWS_AS(made(1.0, {kGrid, 0x1p50}, (1ULL << 11) + 1), std::invalid_argument);
  CHECK(made(1.0, {kGrid, 0.0}).lattice().limit == 0.0);
  const auto bare = [](double grid) {
    return ContinualSum(2, 1, make_silence(2), 1.0, std::make_unique<Source>(Key{}, 0),
                        std::nullopt, {grid, 1.0});
  };
  for (const double grid : {0x1p-12, 0x1p-42}) CHECK(bare(grid).lattice().grid == grid);
  for (const double grid : {0x1p-11, 0x1.8p-20, 0x1p-43}) {
    CHECK_THROWS_AS(bare(grid), std::invalid_argument);
  }
  CHECK_THROWS_AS(made(0.0, {kGrid, 1.0}), std::invalid_argument);
  SumSettings s = settings_of(Factorisation::blt_normalised, law);
  s.horizon = kRounds - 1;
  CHECK_THROWS_AS(make_sum(s, std::make_unique<Source>(Key{}, 0)), std::invalid_argument);
  s.blt.ends.clear();
  CHECK_THROWS_AS(make_sum(s, std::make_unique<Source>(Key{}, 0)), std::invalid_argument);
  CHECK_THROWS_AS(ContinualSum(1, 1, make_silence(1), 0.0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(ContinualSum(1, 1, nullptr, 0.0, std::make_unique<Source>(Key{}, 0)),
                  std::invalid_argument);
  for (const Index d : {0, -1}) {
    CHECK_THROWS_AS(ContinualSum(d, 1, make_silence(1), 0.0, std::make_unique<Source>(Key{}, 0)),
                    std::invalid_argument);
  }
}

TEST_CASE(
    "a sum is what went in and its noise, rounded, in one call, in many and after a restore") {
  for (const Factorisation kind : kFactorisations) {
    for (const NoiseLaw& law : kLaws) {
      for (const bool clipped : {false, true}) {
        const SumSettings settings = settings_of(kind, law);
        const auto fresh = [&] {
          const losses::RecordClipper clipper(3, 0x1p-7, 2.0, kInfinity);
          return make_sum(settings, std::make_unique<Source>(Key{}, 3),
                          clipped ? std::optional(clipper) : std::nullopt);
        };
        ContinualSum sum = fresh(), pushed = fresh();
        const auto process = process_of(kind, law);
        Source source(Key{}, 3), records(Key{}, 4);
        std::vector<double> g(3 * kRounds), out(g), single(g), noise(g);
        records.fill(Variate::gaussian, g);
        for (double& each : g) each *= 0x1p-15;
        for (std::size_t i = 0; i < 3; ++i) g[6 + i] *= 0x1p20;  // beyond the bounds
        if (clipped) g[3] = kNan;
        sum.run(sum.enter(), g, out);
        process->advance(1, source, noise);
        const double step = std::ldexp(1.0, std::ilogb(law.scale) - 12);
        long double exact[3] = {0.0L, 0.0L, 0.0L};
        for (std::uint64_t t = 0; t < kRounds; ++t) {
          const auto row = std::span<const double>(g).subspan(3 * t, 3);
          const bool wild = clipped && t == 2;
          const double factor = wild ? 0x1p-7 / std::hypot(row[0], row[1], row[2]) : 1.0;
          pushed.push(row, std::span(single).subspan(3 * t, 3));
          for (std::size_t i = 0; i < 3; ++i) {
            if (clipped && t == 1) continue;
            const double own = factor * row[i];
            const double grids = std::clamp(std::nearbyint(own / kGrid), -100.0, 100.0);
            exact[i] += law.on_lattice() ? static_cast<long double>(grids * kGrid) : own;
          }
          for (std::size_t i = 0; i < 3; ++i) {
            const double z = noise[3 * t + i] * (law.on_lattice() ? kGrid : 1.0);
            const auto want = static_cast<double>(exact[i] + z);
            CHECK(std::fabs(out[3 * t + i] - want) <= 0.5000001 * step);
            CHECK(std::remainder(out[3 * t + i], step) == 0.0);
          }
        }
        CHECK(out == single);
        const std::string state = state_of(sum);
        CHECK(state == state_of(pushed));
        const std::vector<double> raw = sum.nonprivate_sum();
        CHECK(raw.size() == 3);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(raw[i] == doctest::Approx(static_cast<double>(exact[i])).epsilon(1e-9).scale(0));
        }
        ContinualSum restored = fresh();
        ArchiveReader reader(state);
        restored.read(reader);
        CHECK(state_of(restored) == state);
      }
    }
  }
}

TEST_CASE("a state of a round that the horizon does not have is refused") {
  for (const Factorisation kind : {Factorisation::tree, Factorisation::blt}) {
    for (const std::uint64_t round : {kRounds - 1, kRounds, kRounds + 1}) {
      SumSettings settings = settings_of(kind, {2.0, 1.7});
      settings.horizon = kRounds + 1;
      ContinualSum longer = make_sum(settings, std::make_unique<Source>(Key{}, 3));
      settings.horizon = kRounds;
      ContinualSum own = make_sum(settings, std::make_unique<Source>(Key{}, 3));
      std::vector<double> rows(3 * round, 1.0);
      longer.run(longer.enter(), rows, rows);
      const std::string state = state_of(longer);
      ArchiveReader reader(state);
      if (round > kRounds) {
        CHECK_THROWS_AS(own.read(reader), StateError);
        continue;
      }
      own.read(reader);
      CHECK(own.round() == round);
      if (round == kRounds)
        CHECK_THROWS_AS(own.push(std::span(rows).first(3), std::span(rows).first(3)),
                        HorizonExceeded);
    }
  }
}

TEST_CASE("blocks of short and of long rows, and exact sums of more than 53 bits") {
  for (const Index d : {1, 3, 700, 2047, 2048, 2049}) {
    SumSettings s{d, 5000, Factorisation::tree, 2.0, 1.0, {}, {}};
    ContinualSum whole = make_sum(s, std::make_unique<Source>(Key{}, 3));
    ContinualSum single = make_sum(s, std::make_unique<Source>(Key{}, 3));
    const auto width = static_cast<std::size_t>(d);
    const std::size_t rounds = d <= 3 ? 5000 : 5;
    std::vector<double> g(rounds * width), out(g), one(g);
    Source(Key{}, 4).fill(Variate::gaussian, g);
    whole.run(whole.enter(), g, out);
    for (std::size_t t = 0; t < rounds; ++t) {
      single.push(std::span(g).subspan(t * width, width), std::span(one).subspan(t * width, width));
    }
    CHECK(out == one);
  }
  const double most = 0x1p50 - 1.0;
  SumSettings s{1, 2048, Factorisation::tree, 2.0, 1.0, {kGrid, 0x1p50}, {}};
  ContinualSum sum = make_sum(s, std::make_unique<Source>(Key{}, 3));
  double out = 0.0;
  for (int t = 0; t < 2047; ++t) {
    const double g = (t == 9 ? -most : most) * kGrid;
    sum.push({&g, 1}, {&out, 1});
  }
  const std::int64_t exact = 2045 * ((1LL << 50) - 1);
  const auto split = [&](double nearest, double rest) {
    return static_cast<std::int64_t>(nearest / kGrid) + static_cast<std::int64_t>(rest / kGrid);
  };
  const std::string state = state_of(sum);  // the round, a sum and its rest, each behind a count
  CHECK(split(real_at(state, 2), real_at(state, 4)) == exact);
  CHECK(real_at(state, 4) != 0.0);
  CHECK(sum.nonprivate_sum()[0] == static_cast<double>(exact) * kGrid);
  const auto takes_sum = [&](std::size_t at, double value) {
    std::string other = state;
    std::memcpy(other.data() + 8 * at, &value, 8);
    ContinualSum fresh = make_sum(s, std::make_unique<Source>(Key{}, 3));
    ArchiveReader reader(other);
    try {
      fresh.read(reader);
    } catch (const StateError&) {
      return false;
    }
    return state_of(fresh) == other;
  };
  const double held = real_at(state, 2), rest = real_at(state, 4);
  CHECK(takes_sum(2, held));
  CHECK(takes_sum(2, -held));
  CHECK(takes_sum(4, -rest));
  CHECK(takes_sum(4, 0.0));
  CHECK_FALSE(takes_sum(2, 2048.0 * 0x1p50 * kGrid));  // beyond 2047 limits
  CHECK_FALSE(takes_sum(2, -2048.0 * 0x1p50 * kGrid));
  CHECK_FALSE(takes_sum(2, 0.5 * kGrid));
  CHECK_FALSE(takes_sum(4, 0.5 * kGrid));
  CHECK_FALSE(takes_sum(4, held));
  CHECK_FALSE(takes_sum(2, kNan));
  CHECK(real_at(state, 5) == 1.0);  // the scale of the noise
  CHECK_FALSE(takes_sum(5, 1.5));
}

TEST_CASE("noise drawn for many calls at once is that of one call after the other") {
  for (const Factorisation kind : kFactorisations) {
    for (const NoiseLaw& law :
         {NoiseLaw{2.0, 1.7}, NoiseLaw{1.0, 0.3}, NoiseLaw{2.0, 1.7, kGrid}}) {
      for (const Index d : {1, 3, 8, 200}) {
        const SumSettings settings = settings_of(kind, law, d);
        ContinualSum plain = make_sum(settings, std::make_unique<Source>(Key{}, 3));
        ContinualSum ahead = make_sum(settings, std::make_unique<Source>(Key{}, 3));
        const std::size_t width = plain.width();
        std::vector<double> row(width), one(width), many(width);
        // Between the first calls, once all are over, and for more calls than there are rounds.
        std::uint64_t t = 0;
        for (const std::uint64_t calls : {0, 1, 2, 20, 100}) {
          ahead.expect(calls);
          const std::uint64_t end = std::min(kRounds, t + std::max<std::uint64_t>(1, calls));
          const std::uint64_t first = t;
          const std::uint64_t block = std::max<std::uint64_t>(1, 2048 / width);
          while (t < end) {
            for (Index i = 0; i < d; ++i) {
              row[static_cast<std::size_t>(i)] = std::ldexp(static_cast<double>(t + 1), -5);
            }
            plain.add_one(0.5, row, one);
            ahead.add_one(0.5, row, many);
            ++t;
            CHECK(one == many);
            if (t == end || (t - first) % block == 0) {
              CHECK(state_of(plain) == state_of(ahead));
            } else {
              CHECK_THROWS_AS(state_of(ahead), StateError);
            }
          }
        }
        CHECK(t == kRounds);
        CHECK_THROWS_AS(ahead.add_one(0.5, row, many), HorizonExceeded);
        // Who asks for several at once after all gets what was drawn, and nothing twice.
        ContinualSum whole = make_sum(settings, std::make_unique<Source>(Key{}, 3));
        ContinualSum mixed = make_sum(settings, std::make_unique<Source>(Key{}, 3));
        const auto size = static_cast<std::size_t>(d);
        std::vector<double> rows(9 * size, 0.25), sums(rows), parts(rows);
        whole.run(whole.enter(), rows, sums);
        mixed.expect(6);
        mixed.push(std::span(rows).first(size), std::span(parts).first(size));
        mixed.run(mixed.enter(), std::span(rows).first(8 * size), std::span(parts).subspan(size));
        CHECK(sums == parts);
        CHECK(state_of(whole) == state_of(mixed));
      }
    }
  }
}
