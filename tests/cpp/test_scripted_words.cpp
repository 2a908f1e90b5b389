// Sources whose words are scripted: what comes once in 2^47 variates, on the way that all take.
// An executable of its own, since it has its own kernels().
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "../../cpp/src/simd/variants.hpp"
#include "dpoco/core/compensated.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/mechanisms/vertex_selection.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/exponential.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::simd {
namespace {

namespace el = elementary;

// Words by nonce, superblock and place in it; the others are ordinary.
std::map<std::tuple<std::uint64_t, std::uint64_t, std::size_t>, std::uint64_t> script;

std::uint64_t ordinary(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return ((x ^ (x >> 31)) >> 4) + (1ULL << 61);  // far from both ends
}

void superblock(const Position& at, std::uint64_t index, std::uint32_t* out) {
  for (std::size_t i = 0; i < kSuperblock; ++i) {
    const auto found = script.find({at.nonce, index, i});
    const std::uint64_t plain = ordinary((at.nonce << 40) + index * kSuperblock + i);
    const std::uint64_t word = found == script.end() ? plain : found->second;
    std::memcpy(out + 2 * i, &word, sizeof word);
  }
}

void words(Position at, std::size_t superblocks, std::uint64_t* out) {
  for (std::size_t b = 0; b < superblocks; ++b) {
    std::uint32_t raw[2 * kSuperblock];
    superblock(at, at.superblock + b, raw);
    std::memcpy(out + b * kSuperblock, raw, sizeof raw);
  }
}

#include "../../cpp/src/simd/variates.inl"

}  // namespace

const Kernels& kernels() {
  static const Kernels scripted = [] {
    Kernels own = kBaseline;
    own.words = words;
    own.uniform = uniform;
    own.gaussian = gaussian;
    own.exponential = exponential;
    own.laplace = laplace;
    own.gumbel = gumbel;
    own.any_outside = any_outside;
    return own;
  }();
  return scripted;
}

}  // namespace dpoco::simd

using dpoco::random::Source;
using dpoco::random::Variate;

namespace {

constexpr std::uint64_t kLast = ~0ULL;
constexpr std::size_t kBlock = dpoco::simd::kSuperblock;
constexpr std::size_t kHalf = kBlock / 2;
// As docs/privacy/noise.md has them: of the further digits of each kind.
constexpr std::uint64_t kDigitsNonce[] = {0, 11, 6, 7, 8, 9};

// Sets the word at a place of a kind in stream 0, and those that continue it.
void set(Variate kind, std::uint64_t place, std::uint64_t word,
         const std::vector<std::uint64_t>& further) {
  const auto nonce = static_cast<std::uint64_t>(kind);
  dpoco::simd::script[{nonce, place / kBlock, place % kBlock}] = word;
  const std::uint64_t pair = place / kBlock * kHalf + place % kHalf;
  for (std::size_t k = 0; k < further.size(); ++k) {
    dpoco::simd::script[{kDigitsNonce[nonce], pair, 2 * k + place % kBlock / kHalf}] = further[k];
  }
}

Source fresh() { return Source({}, 0); }

// The variate (of a Gaussian, the radius) of a word whose further digits are `rest` of its last,
// counted from the nearer end.
double variate(Variate kind, std::uint64_t word, long double rest) {
  const bool upper = word > kLast / 2, laplace = kind == Variate::laplace;
  const std::uint64_t near = (upper ? ~word : word) >> (laplace ? 1 : 0);
  const long double distance =
      std::ldexp(static_cast<long double>(near) + rest, laplace ? -63 : -64);
  const long double exponential = upper ? -std::log1p(-distance) : -std::log(distance);
  switch (kind) {
    case Variate::uniform:
      return static_cast<double>(upper ? 1.0L - distance : distance);
    case Variate::gaussian:
      return static_cast<double>(std::sqrt(2.0L * exponential));
    case Variate::gumbel:
      return static_cast<double>(-std::log(exponential));
    default:
      return static_cast<double>(laplace && (word & 1) != 0 ? -exponential : exponential);
  }
}

}  // namespace

TEST_CASE("words near an end are continued wherever they are drawn") {
  const std::vector<std::vector<std::uint64_t>> tails = {
      {3, 1ULL << 63}, {0, 0, 77, 5}, {kLast, kLast, kLast - 9, 1}, {0, 1ULL << 40}};
  for (const Variate kind : {Variate::uniform, Variate::gaussian, Variate::exponential,
                             Variate::laplace, Variate::gumbel}) {
    for (const auto& further : tails) {
      for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{9}, kLast - 9, kLast}) {
        // The next-to-last place is a radius, too.
        const std::uint64_t place = 9 * kBlock + (kind == Variate::gaussian ? kHalf - 2 : 101);
        dpoco::simd::script.clear();
        set(kind, place, word, further);
        std::vector<double> bulk(20 * kBlock), single(bulk), restored(bulk);
        Source first = fresh();
        first.fill(kind, bulk);
        Source second = fresh();
        for (double& each : single) second.fill(kind, std::span(&each, 1));
        CHECK(bulk == single);
        dpoco::Archive archive;
        Source third = fresh();
        third.fill(kind, std::span(restored).first(place));
        third.write(archive);
        const std::string state = archive.take();
        dpoco::ArchiveReader reader(state);
        Source fourth({}, 5);
        fourth.read(reader);
        fourth.fill(kind, std::span(restored).subspan(place));
        CHECK(bulk == restored);

        const auto digits = first.digits_at(kind, place);
        CHECK(digits.word == word);
        for (std::size_t k = 0; k < further.size(); ++k) CHECK(digits.further[k] == further[k]);
        const double wanted = dpoco::random::to_variate(kind, word, digits.further);
        const double found =
            kind == Variate::gaussian ? std::hypot(bulk[place], bulk[place + kHalf]) : bulk[place];
        CHECK(found == doctest::Approx(wanted).epsilon(1e-14).scale(0));
        if (kind != Variate::uniform || word < kLast / 2) {
          CHECK(wanted != dpoco::random::to_variate(kind, word, {}));  // the test can fail
        }
      }
    }
  }
}

TEST_CASE("words are continued up to 2^16 from an end, and no others") {
  for (const Variate kind : {Variate::uniform, Variate::gaussian, Variate::exponential,
                             Variate::laplace, Variate::gumbel}) {
    const std::uint64_t few = kind == Variate::laplace ? 1ULL << 17 : 1ULL << 16;
    for (const std::uint64_t word : {few - 1, few, ~(few - 1), ~few}) {
      for (const std::uint64_t angle : {1ULL << 61, 1ULL, 1ULL << 63}) {
        dpoco::simd::script.clear();
        set(kind, 137 + kBlock, word, {0, 0});
        if (kind == Variate::gaussian) set(kind, 137 + kBlock + kHalf, angle, {});
        std::vector<double> drawn(3 * kBlock);
        fresh().fill(kind, drawn);
        const bool upper = word > kLast / 2;
        const bool mended = (upper ? ~word : word) < few && !(upper && kind == Variate::uniform);
        const double wanted = variate(kind, word, mended ? (upper ? 1.0L : 0.0L) : 0.5L);
        const double found = kind == Variate::gaussian
                                 ? std::hypot(drawn[137 + kBlock], drawn[137 + kBlock + kHalf])
                                 : drawn[137 + kBlock];
        CHECK(found == doctest::Approx(wanted).epsilon(1e-14).scale(0));
        if (kind != Variate::gaussian || angle != 1) continue;
        const double sine = 1.5 * std::acos(-1.0) * 0x1p-63;  // a tiny angle stays as it is
        CHECK(drawn[137 + kBlock + kHalf] ==
              doctest::Approx(sine * wanted).epsilon(1e-14).scale(0));
      }
    }
  }
}

TEST_CASE("the outer 2^-32 of an exponential law is drawn once more, wherever it is drawn") {
  namespace noise = dpoco::noise;
  constexpr std::uint64_t kEdge = 1ULL << 32;  // words of either end; Laplace: with a sign behind
  const std::vector<std::uint64_t> words{kEdge - 1, kEdge, 0, 9,
                                         kEdge + 1};  // once more, and once more
  const long double first = std::ldexp(kEdge + 0.5L, -96), second = std::ldexp(kEdge + 1.5L, -128);
  const long double ln2 = std::log(2.0L);
  const auto far = [&](long double u) { return static_cast<double>(32.0L * ln2 - std::log(u)); };
  const auto near = [](long double u) {
    return static_cast<double>(-std::log1p(-std::ldexp(u, -32)));
  };
  for (const Variate kind : {Variate::exponential, Variate::laplace}) {
    for (const bool lower : {false, true}) {
      dpoco::simd::script.clear();
      for (std::size_t i = 0; i < words.size(); ++i) set(Variate::word, i, words[i], {});
      const auto end = [&](std::uint64_t word) { return lower ? ~word : word; };
      set(kind, 0, end(kEdge - 1), {});
      set(kind, 171, end(0), {});
      set(kind, 172, end(kEdge), {});  // not in it
      std::vector<double> plain(300), bulk(300);
      fresh().fill(kind, plain);
      Source source = fresh(), single = fresh();
      const bool signs = kind == Variate::laplace;
      (signs ? noise::laplaces : noise::exponentials)(source, bulk);
      CHECK(source.position(Variate::word) == words.size());
      for (std::size_t i = 0; i < bulk.size(); ++i) {
        const long double u = i == 0 ? first : second;
        const double outer = std::copysign(lower ? near(u) : far(u), plain[i]);
        if (i == 0 || i == 171) {
          CHECK(bulk[i] == doctest::Approx(outer).epsilon(1e-14).scale(0));
        } else {
          CHECK(bulk[i] == plain[i]);
        }
        if (!signs) CHECK(noise::exponential(single) == bulk[i]);
      }
    }
  }
}

TEST_CASE("the least of noisy scores is the least after outer noise was drawn once more") {
  const std::size_t d = 600;
  auto selection =
      dpoco::mechanisms::make_vertex_selection(std::make_shared<dpoco::domains::Simplex>(d, 1.0),
                                               dpoco::mechanisms::SelectionNoise::laplace);
  std::vector<double> direction(d, 1.0), vertex(d);
  for (const bool lower : {false, true}) {
    dpoco::simd::script.clear();
    // Words that would be the other way round, of a sign that makes them the least there are.
    const std::uint64_t sign = lower ? 0 : 1;
    const auto end = [&](std::uint64_t word) { return ((lower ? ~word : word) & ~1ULL) | sign; };
    set(Variate::laplace, 0, end(8), {});
    set(Variate::laplace, 550, end(1ULL << 31), {});
    set(Variate::word, 0, lower ? kLast : kLast - 1, {});
    set(Variate::word, 1, 1ULL << 40, {});
    std::fill(direction.begin(), direction.end(), lower ? 100.0 : 0.0);
    direction[0] = direction[550] = 0.0;
    Source source = fresh();
    selection->select(direction, 1.0, source, vertex);
    CHECK(vertex[550] == 1.0);
    CHECK(source.position(Variate::word) == 2);
  }
}

TEST_CASE("rounded Gaussians that doubles leave open have the words of their own place") {
  for (const std::uint64_t place : {5 * kBlock + 40, 6 * kBlock + kHalf, kHalf + 1}) {
    const std::vector<std::uint64_t> further{kLast / 3, kLast / 5, kLast / 7};
    const std::uint64_t own = place % kHalf, block = place / kBlock;
    dpoco::simd::script.clear();
    set(Variate::gaussian, block * kBlock + own, 3, {kLast / 3, kLast / 7});
    set(Variate::gaussian, block * kBlock + own + kHalf, 1ULL << 60, {kLast / 5});
    Source source = fresh();
    std::vector<double> out(7 * kBlock);
    const dpoco::noise::RoundedGaussian law(0x1p30);
    law.fill(source, out);
    for (const bool second : {false, true}) {
      std::vector<std::uint64_t> digits(dpoco::random::Source::kPairDigits);
      source.further_digits(Variate::gaussian, place,
                            std::span(digits).first<dpoco::random::Source::kPairDigits>());
      CHECK(std::equal(further.begin(), further.end(), digits.begin()));
      dpoco::noise::PairDigits tape(digits);
      const auto value = law.resolve({3, 1ULL << 60, second}, tape);
      CHECK(out[block * kBlock + own + (second ? kHalf : 0)] == static_cast<double>(value));
      CHECK(std::fabs(out[block * kBlock + own + (second ? kHalf : 0)]) > 0x1p30);
    }
  }
}

TEST_CASE("the distance of a uniform variate from 1 has the same digits") {
  dpoco::simd::script.clear();
  set(Variate::uniform, 70, kLast, {kLast - 1, 0});
  Source source = fresh();
  for (int i = 0; i < 71; ++i) source.uniform();
  CHECK(source.complement() == doctest::Approx(0x1p-127).epsilon(1e-12).scale(0));
}

TEST_CASE("coins have probabilities far below the distance of doubles") {
  for (const double log_p : {-0x1p-70, -0x1.8p-100, -60.0, -150.0}) {
    const bool near_one = log_p > -1.0;
    const double edge = near_one ? -log_p : std::exp(log_p);  // how far from 1, or from 0
    for (const double share : {0.25, 0.999, 1.001, 3.0}) {
      int exponent = 0;
      const double mantissa = std::frexp(share * edge, &exponent);
      const auto digits = static_cast<std::uint64_t>(std::ldexp(mantissa, 53));
      std::vector<std::uint64_t> distance(5, 0);
      for (int bit = 0; bit < 53; ++bit) {
        const auto place = static_cast<std::size_t>(52 - exponent - bit);
        distance[place / 64] |= ((digits >> bit) & 1) << (63 - place % 64);
      }
      if (near_one) {
        for (auto& each : distance) each = ~each;
      }
      dpoco::simd::script.clear();
      set(Variate::uniform, 0, distance[0], {distance.begin() + 1, distance.end()});
      Source source = fresh();
      CHECK(dpoco::noise::bernoulli_exp(source, log_p) == (near_one == (share > 1.0)));
    }
  }
}

TEST_CASE("a rejection sampler reaches beyond where 64 digits end") {
  dpoco::simd::script.clear();
  set(Variate::exponential, 0, 0, {1ULL << 20});  // the proposal: 64 + 43 bits
  Source source = fresh();
  CHECK(60.0 * dpoco::samplers::normal_tail(source, 60.0, 1e300) > 64.0 * std::log(2.0));
  CHECK(source.position(Variate::exponential) == 2);  // the first proposal was taken
}
