// The generator against a second, plain ChaCha20, and its positions.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/random/source.hpp"

using dpoco::Archive;
using dpoco::ArchiveReader;
using dpoco::random::Key;
using dpoco::random::Source;
using dpoco::random::Variate;

namespace {

std::uint32_t turn(std::uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

// One block, written from the definition, word by word.
std::array<std::uint32_t, 16> block(const Key& key, std::uint64_t nonce, std::uint64_t counter) {
  std::array<std::uint32_t, 16> s = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (std::size_t i = 0; i < 8; ++i) s[4 + i] = key[i];
  s[12] = static_cast<std::uint32_t>(counter);
  s[13] = static_cast<std::uint32_t>(counter >> 32);
  s[14] = static_cast<std::uint32_t>(nonce);
  s[15] = static_cast<std::uint32_t>(nonce >> 32);
  auto x = s;
  const auto quarter = [&x](std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
    x[a] += x[b], x[d] = turn(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = turn(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = turn(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = turn(x[b] ^ x[c], 7);
  };
  for (int i = 0; i < 10; ++i) {
    quarter(0, 4, 8, 12), quarter(1, 5, 9, 13), quarter(2, 6, 10, 14), quarter(3, 7, 11, 15);
    quarter(0, 5, 10, 15), quarter(1, 6, 11, 12), quarter(2, 7, 8, 13), quarter(3, 4, 9, 14);
  }
  for (std::size_t i = 0; i < 16; ++i) x[i] += s[i];
  return x;
}

Key counting_key() {
  Key key;
  for (std::uint32_t i = 0; i < 8; ++i) key[i] = 0x01020304U * (i + 1);
  return key;
}

std::vector<const char*> instruction_sets() {
  std::vector<const char*> found;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    try {
      dpoco::simd::select(name);
      found.push_back(name);
    } catch (const std::invalid_argument&) {
    }
  }
  dpoco::simd::select("auto");
  return found;
}

}  // namespace

TEST_CASE("words are the ChaCha20 key stream, sixteen blocks side by side") {
  const Key key = counting_key();
  for (const char* set : instruction_sets()) {
    CAPTURE(set);
    dpoco::simd::select(set);
    // The second start makes the 32-bit half of the block counter carry.
    for (std::uint64_t superblock : {0ULL, (1ULL << 28) - 1, 1ULL << 40}) {
      const std::uint64_t nonce = 0xfedcba9876543210ULL;
      std::vector<std::uint64_t> words(2 * dpoco::simd::kSuperblock);
      dpoco::simd::kernels().words({key.data(), nonce, superblock}, 2, words.data());
      std::vector<std::uint32_t> halves(2 * words.size());
      std::memcpy(halves.data(), words.data(), words.size() * 8);
      for (std::uint64_t b = 0; b < 32; ++b) {
        const auto want = block(key, nonce, superblock * 16 + b);
        for (std::size_t w = 0; w < 16; ++w) {
          CHECK(halves[(b / 16) * 256 + w * 16 + b % 16] == want[w]);
        }
      }
    }
  }
  dpoco::simd::select("auto");
}

TEST_CASE("every kernel gives the same bits on every instruction set") {
  const Key key = counting_key();
  const auto sets = instruction_sets();
  const auto outputs = [&key](const char* set) {
    dpoco::simd::select(set);
    const auto& k = dpoco::simd::kernels();
    std::vector<double> all;
    std::vector<double> one(8 * dpoco::simd::kSuperblock);
    for (auto fill : {k.uniform, k.gaussian, k.exponential, k.laplace, k.gumbel}) {
      fill({key.data(), 7, 3}, 8, one.data());
      all.insert(all.end(), one.begin(), one.end());
    }
    const std::vector<double> x(all.begin() + 1024, all.begin() + 2048);  // Gaussians
    const double factor = 0.7;
    for (std::size_t n : {1U, 7U, 8U, 9U, 10U, 64U, 1001U}) {
      all.push_back(k.dot(x.data(), x.data() + 10, n));
      all.push_back(k.sum(x.data(), n));
      all.push_back(k.max_abs(x.data(), n));
      all.push_back(k.abs_power_sum(x.data(), n, 0.3, 2.7));
      std::vector<double> out(n);
      k.signed_power(x.data(), n, 0.3, 1.7, out.data());
      all.insert(all.end(), out.begin(), out.end());
      k.signed_square(x.data(), n, 0.3, out.data());
      all.insert(all.end(), out.begin(), out.end());
      k.against(0.3, x.data(), n, out.data());
      k.scale(1.3, out.data(), n, out.data());
      std::vector<double> moved(n);
      all.push_back(k.approach(0.1, x.data(), out.data(), n, moved.data()) ? 1.0 : 0.0);
      all.insert(all.end(), moved.begin(), moved.end());
      k.exp(x.data(), n, out.data());
      all.insert(all.end(), out.begin(), out.end());
      k.log(out.data(), n, out.data());
      all.insert(all.end(), out.begin(), out.end());
      k.axpy(0.7, x.data(), n, out.data());
      all.insert(all.end(), out.begin(), out.end());
      std::vector<double> sum(n, 0.5);
      k.extend(nullptr, x.data(), 1.3, n, sum.data(), out.data());
      k.extend(out.data(), x.data() + 10, 1.3, n, sum.data(), out.data());
      std::vector<double> rest(n, 0x1p-60);
      k.accumulate(0.7, x.data() + 3, n, sum.data(), rest.data());
      k.release(1, &factor, x.data() + 5, x.data(), 0.0, n, sum.data(), rest.data(), out.data());
      all.insert(all.end(), out.begin(), out.end());
      k.release(1, &factor, x.data() + 5, x.data(), 0.125, n, sum.data(), rest.data(), out.data());
      all.insert(all.end(), rest.begin(), rest.end());
      all.insert(all.end(), sum.begin(), sum.end());
      all.insert(all.end(), out.begin(), out.end());
      all.push_back(
          static_cast<double>(k.admit_losses(x.data(), n, -0.7, 0.9, 1.0 / 1.6, out.data())));
      all.insert(all.end(), out.begin(), out.end());
      all.push_back(k.smallest(x.data(), n));
      all.push_back(k.tilt(nullptr, x.data(), -3.0, 0.3, n, out.data()));
      all.push_back(k.tilt(out.data(), x.data(), 0.1, 1.3, n, out.data()));
      all.insert(all.end(), out.begin(), out.end());
      k.affine(0.3, out.data(), 0.7, n, out.data());
      all.insert(all.end(), out.begin(), out.end());
      all.push_back(k.cusum(0.2, x.data(), n, sum.data()));
      all.insert(all.end(), sum.begin(), sum.end());
      const double keep[5] = {0.9, 0.99, 0.5, 0.7, 0.999};
      const double omega[5] = {0.1, 0.02, 0.3, 0.2, 0.01};
      for (std::size_t buffers : {3U, 5U}) {
        constexpr std::size_t kRounds = 4;
        std::vector<double> state(buffers * n, 0.25);
        std::vector<double> rows(kRounds * n);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = x[i % x.size()];
        k.blt(kRounds, n, 1.3, buffers, keep, omega, state.data(), out.data(), rows.data());
        all.insert(all.end(), state.begin(), state.end());
        all.insert(all.end(), rows.begin(), rows.end());
      }
    }
    dpoco::simd::select("auto");
    return all;
  };
  const auto want = outputs("baseline");
  for (const char* set : sets) {
    CAPTURE(set);
    const auto got = outputs(set);
    CHECK(std::memcmp(want.data(), got.data(), want.size() * sizeof(double)) == 0);
  }
}

// What the kernels of sums and their noise do with blocks of rows, entry by entry.
struct PlainSums {
  std::vector<double> state, total, sum, rest;
  std::vector<std::int64_t> exact;
  explicit PlainSums(std::size_t n)
      : state(5 * n, 0.0), total(n, 0.0), sum(n, 0.0), rest(n, 0.0), exact(n, 0) {}
};
constexpr double kDecay[5] = {0.1, 0.01, 0.5, 0.3, 0.001};
constexpr double kOmega[5] = {0.1, 0.02, 0.3, 0.2, 0.01};

double nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

void plain_blt(PlainSums& s, bool lattice, std::size_t n, double* z) {
  constexpr double kUnit = 0x1p-10;
  for (std::size_t i = 0; i < n; ++i) {
    double* held[5];
    for (std::size_t j = 0; j < 5; ++j) held[j] = &s.state[j * n + i];
    double w = 1.3 * z[i];
    double past = kOmega[0] * *held[0];
    for (std::size_t j = 1; j < 5; ++j) past += kOmega[j] * *held[j];
    for (std::size_t j = 0; j < 5; ++j) w -= kOmega[j] * *held[j];
    if (lattice) w = z[i] - nearest(past);
    for (std::size_t j = 0; j < 5; ++j) {
      const double lost = nearest(kDecay[j] * *held[j] / kUnit) * kUnit;
      *held[j] = lattice ? (*held[j] - lost) + w : (1.0 - kDecay[j]) * *held[j] + w;
    }
    s.total[i] += w;
    z[i] = s.total[i];
  }
}

TEST_CASE("blocks of rows are worked on as one entry after the other, on every instruction set") {
  Source source(counting_key(), 5);
  constexpr std::size_t kRounds = 11;
  for (const char* set : instruction_sets()) {
    CAPTURE(set);
    dpoco::simd::select(set);
    const auto& k = dpoco::simd::kernels();
    for (std::size_t n : {1U, 2U, 3U, 5U, 7U, 8U, 9U, 10U, 16U, 17U, 23U, 24U, 40U, 100U}) {
      CAPTURE(n);
      for (const bool lattice : {false, true}) {
        std::vector<double> z(kRounds * n), g(kRounds * n), a(kRounds), out(kRounds * n);
        source.fill(Variate::gaussian, z);
        source.fill(Variate::gaussian, g);
        source.fill(Variate::uniform, a);
        if (lattice) {
          for (double& x : z) x = nearest(1e4 * x);
        }
        PlainSums want(n), got(n);
        std::vector<double> noise = z;
        double keep[5];
        for (std::size_t j = 0; j < 5; ++j) keep[j] = 1.0 - kDecay[j];
        if (lattice) {
          k.lattice_blt(kRounds, n, 0x1p-10, 5, kDecay, kOmega, got.state.data(), got.total.data(),
                        noise.data());
          k.lattice_release(kRounds, a.data(), g.data(), noise.data(), 0x1p-12, 4096.0, 3, n,
                            got.exact.data(), out.data());
        } else {
          k.blt(kRounds, n, 1.3, 5, keep, kOmega, got.state.data(), got.total.data(), noise.data());
          k.release(kRounds, a.data(), g.data(), noise.data(), 0.125, n, got.sum.data(),
                    got.rest.data(), out.data());
        }
        bool same = true;
        for (std::size_t r = 0; r < kRounds; ++r) {
          double* row = z.data() + r * n;
          plain_blt(want, lattice, n, row);
          for (std::size_t i = 0; i < n; ++i) {
            const double leaf = a[r] * g[r * n + i];
            double released = 0.0;
            if (lattice) {
              const double units = nearest(std::max(-4096.0, std::min(4096.0, leaf * 0x1p12)));
              want.exact[i] += static_cast<std::int64_t>(units);
              const double whole = static_cast<double>(want.exact[i]) + row[i];
              released = std::floor((whole + 4.0) / 8.0) * 0x1p-9;
            } else {
              dpoco::add_compensated(leaf, want.sum[i], want.rest[i]);
              released = nearest((want.sum[i] + row[i]) * 8.0) * 0.125;
            }
            same = same && row[i] == noise[r * n + i] && released == out[r * n + i];
          }
        }
        CHECK(same);
        CHECK(want.state == got.state);
        CHECK(want.total == got.total);
        CHECK(want.exact == got.exact);
        CHECK(want.rest == got.rest);
      }
      std::vector<double> rows(kRounds * n), left(n, 0.75), taken(n, 0.75), sums(n, 0.5);
      source.fill(Variate::gaussian, rows);
      std::vector<double> added = sums;
      k.eliminate(rows.data(), n, kRounds, n, taken.data());
      k.accumulate_rounded(1.5, rows.data(), 0x1p-20, 1.0, n, sums.data());
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t r = 0; r < kRounds; ++r) left[i] -= rows[r * n] * rows[r * n + i];
        added[i] += nearest(std::max(-1.0, std::min(1.0, 1.5 * rows[i])) * 0x1p20) * 0x1p-20;
      }
      rows[n / 2] = std::nan("");
      rows[n - 1] = -HUGE_VAL;
      rows[n] = HUGE_VAL;
      std::vector<double> mild = rows;  // few losses are outside [0, 1]
      for (double& x : mild) x = std::fabs(x) < 2.5 ? std::min(1.0, std::fabs(x)) : x;
      for (const auto& [low, losses] : {std::pair{-0.7, &rows}, {0.0, &rows}, {0.0, &mild}}) {
        const double inverse = low < 0.0 ? 1.0 / 1.6 : 1.0;
        const double high = low < 0.0 ? 0.9 : 1.0;
        std::vector<double> admitted(n), apart(n, 0.25), together(n, 0.25);
        std::uint64_t changed = 0;
        for (std::size_t r = 0; r < kRounds; ++r) {
          changed += k.admit_losses(&(*losses)[r * n], n, low, high, inverse, admitted.data());
          k.accumulate_rounded(1.0, admitted.data(), 0x1p-20, 1.0, n, apart.data());
        }
        CHECK(changed == k.admit_sums(kRounds, losses->data(), n, low, high, inverse, 0x1p-20,
                                      together.data()));
        CHECK(apart == together);
      }
      CHECK(left == taken);
      CHECK(added == sums);
    }
  }
  dpoco::simd::select("auto");
}

TEST_CASE("bits do not change from release to release") {
  // A changed transform would break saved states silently: the hash pins the streams.
  Source source(Key{}, 0);
  std::uint64_t hash = 1469598103934665603ULL;
  for (Variate kind : {Variate::uniform, Variate::gaussian, Variate::exponential, Variate::laplace,
                       Variate::gumbel}) {
    double values[1000];
    source.fill(kind, values);
    for (double value : values) {
      std::uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 1099511628211ULL;
    }
  }
  CHECK(hash == 5304039400219504167ULL);
}

TEST_CASE("draws are the same however they are split, and after a restore") {
  for (Variate kind : {Variate::uniform, Variate::gaussian, Variate::exponential, Variate::laplace,
                       Variate::gumbel}) {
    Source whole(counting_key(), 5);
    Source split(counting_key(), 5);
    std::vector<double> want(1500);
    whole.fill(kind, want);
    std::vector<double> got(want.size());
    std::size_t at = 0;
    for (std::size_t part : {1U, 127U, 1U, 128U, 300U, 2U, 500U, 441U}) {
      Archive archive;
      split.write(archive);
      const std::string bytes = archive.take();
      Source resumed(Key{}, 0);
      ArchiveReader reader(bytes);
      resumed.read(reader);
      reader.finish();
      resumed.fill(kind, std::span(got).subspan(at, part));
      std::vector<double> again(part);
      split.fill(kind, std::span(again).first(part));
      CHECK(std::memcmp(again.data(), got.data() + at, part * 8) == 0);
      at += part;
    }
    CHECK(at == want.size());
    CHECK(std::memcmp(want.data(), got.data(), want.size() * 8) == 0);
  }
}

TEST_CASE("kinds and streams are independent sub-streams") {
  Source a(counting_key(), 1);
  Source b(counting_key(), 1);
  Source c(counting_key(), 2);
  std::vector<double> skip(77);
  a.fill(Variate::laplace, skip);
  CHECK(a.gaussian() == b.gaussian());  // drawing Laplace moved nothing else
  CHECK(b.gaussian() != c.gaussian());
  CHECK(a.position(Variate::laplace) == 77);
  CHECK(a.position(Variate::gaussian) == 1);
}

TEST_CASE("variates stay within what their first words can reach") {
  for (const char* set : instruction_sets()) {
    dpoco::simd::select(set);
    Source source(counting_key(), 9);
    std::vector<double> values(1 << 16);
    source.fill(Variate::gumbel, values);
    for (double v : values) CHECK((v >= -3.9 && v <= 45.1));
    source.fill(Variate::exponential, values);
    for (double v : values) CHECK((v > 0.0 && v <= 45.1));
    source.fill(Variate::gaussian, values);
    for (double v : values) CHECK(std::fabs(v) <= 9.5);
  }
  dpoco::simd::select("auto");
}

TEST_CASE("bad sources and states are refused") {
  CHECK_THROWS_AS(Source(Key{}, Source::kMaxStream + 1), std::invalid_argument);
  Source source(Key{}, 0);
  double x = 0.0;
  CHECK_THROWS_AS(source.fill(Variate::word, {&x, 1}), std::invalid_argument);
  Archive archive;
  source.write(archive);
  const std::string bytes = archive.take();
  ArchiveReader cut(std::string_view(bytes).substr(0, bytes.size() - 1));
  CHECK_THROWS_AS(source.read(cut), dpoco::StateError);
}

TEST_CASE("a state brings its key, stream and positions, whatever was drawn before") {
  constexpr Variate kKinds[] = {Variate::uniform, Variate::gaussian, Variate::exponential,
                                Variate::laplace, Variate::gumbel};
  const auto drawn = [&](Source& source, std::size_t n) {
    std::vector<double> all;
    for (const Variate kind : kKinds) {
      all.resize(all.size() + n);
      source.fill(kind, std::span(all).last(n));
    }
    for (std::size_t i = 0; i < n; ++i) all.push_back(std::ldexp(source.word(), -64));
    return all;
  };
  const auto state_of = [](const Source& source) {
    Archive archive;
    source.write(archive);
    return archive.take();
  };
  Source first(counting_key(), 5), second(Key{}, 0), third(Key{}, 0);
  CHECK(drawn(first, 70) != drawn(second, 70));
  drawn(third, 70);
  const std::string state = state_of(first);
  ArchiveReader reader(state);
  second.read(reader);
  reader.finish();
  CHECK(state_of(second) == state);
  CHECK(second.stream() == 5);
  third.rekey(counting_key(), 5);
  const std::vector<double> next = drawn(first, 200);
  CHECK(drawn(second, 200) == next);
  CHECK(drawn(third, 200) == next);
  CHECK(state_of(third) == state_of(first));
  CHECK_THROWS_AS(third.rekey(counting_key(), Source::kMaxStream + 1), std::invalid_argument);
  third.rekey(counting_key(), Source::kMaxStream);
  CHECK(Source(Key{}, Source::kMaxStream).stream() == third.stream());
  // Words 0 to 3 are the key, then the stream and the positions of six kinds.
  const auto takes = [&](std::size_t at, std::uint64_t word) {
    std::string other = state;
    std::memcpy(other.data() + 8 * at, &word, 8);
    Source source(Key{}, 9);
    const std::string before = state_of(source);
    ArchiveReader spoiled(other);
    try {
      source.read(spoiled);
    } catch (const dpoco::StateError&) {
      CHECK(state_of(source) == before);
      return false;
    }
    CHECK(state_of(source) == other);
    return true;
  };
  for (const std::size_t at : {0, 1, 2, 3, 5}) CHECK(takes(at, ~0ULL));
  CHECK(takes(4, Source::kMaxStream));
  CHECK_FALSE(takes(4, Source::kMaxStream + 1));
  for (std::size_t at = 6; at < 11; ++at) {
    CHECK(takes(at, (1ULL << 61) - 1));
    CHECK_FALSE(takes(at, 1ULL << 61));
  }
}

TEST_CASE("partners of Gaussian variates are the other members of their pairs") {
  constexpr std::size_t kBlock = dpoco::simd::kSuperblock;
  std::vector<double> all(4 * kBlock);
  Source(counting_key(), 3).fill(Variate::gaussian, all);
  Source source(counting_key(), 3);
  std::size_t place = 0;
  for (std::size_t most = 1; place + kBlock <= all.size(); most = most % 100 + 33) {
    const auto [values, partners] = source.next_gaussians(most);
    const std::size_t count = values.size();
    REQUIRE(count >= 1);
    REQUIRE(count <= most);
    for (std::size_t i = 0; i < count; ++i, ++place) {
      CHECK(values[i] == all[place]);
      const std::size_t own = place % kBlock;
      const std::size_t other = own < kBlock / 2 ? own + kBlock / 2 : own - kBlock / 2;
      CHECK(partners[i] == all[place - own + other]);
    }
  }
}

#ifndef _WIN32
TEST_CASE("a forked child draws nothing, not even a single variate") {
  Source source(Key{}, 0);
  const pid_t child = fork();
  if (child == 0) {
    try {
      source.uniform();
    } catch (const dpoco::StateError&) {
      _exit(0);
    }
    _exit(1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif
