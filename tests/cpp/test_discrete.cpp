#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../../cpp/src/noise/natural.hpp"
#include "dpoco/noise/discrete.hpp"

using namespace dpoco;
using noise::Decisions;

TEST_CASE("discrete noise decides alike in doubles and in integers of any size") {
  const random::Key key{1, 2, 3, 4, 5, 6, 7, 8};
  for (const double scale : {0x1p-10, 0.6, 3.0, 1e5, 0x1p20, 1e12, 0x1p50}) {
    random::Source first(key, 1), second(key, 1), third(key, 2), fourth(key, 2);
    std::array<std::int64_t, 40> fast{}, exact{};
    noise::DiscreteLaplace({scale}).draw_many(first, fast);
    noise::DiscreteLaplace({scale}, Decisions::exact).draw_many(second, exact);
    CHECK(fast == exact);
    CHECK(first.position(random::Variate::word) == second.position(random::Variate::word));
    fill(noise::DiscreteGaussian({scale}), third, std::span(fast));
    fill(noise::DiscreteGaussian({scale}, Decisions::exact), fourth, std::span(exact));
    CHECK(fast == exact);
    CHECK(third.position(random::Variate::word) == fourth.position(random::Variate::word));
  }
}

TEST_CASE("many discrete Laplace variates are those of one call after the other") {
  // So many that some begin with sixteen zeros, some offsets are refused, and words end in between.
  constexpr std::size_t kAll = 200'000;
  std::vector<std::int64_t> many(kAll);
  for (const double scale : {0x1p-10, 3.0, 0x1p20 - 0.5, 0x1p20, 1e12, 0x1p50}) {
    const random::Key key{1, 2, 3};
    random::Source together(key, 3), alone(key, 3);
    const noise::DiscreteLaplace law({scale});
    for (std::size_t done = 0, n = 1; done < kAll; done += n, n = n * 3 % 1009) {
      n = std::min(n, kAll - done);
      law.draw_many(together, std::span(many).subspan(done, n));
    }
    CHECK(std::all_of(many.begin(), many.end(), [&](auto n) { return n == law.draw(alone); }));
    const std::uint64_t words = together.position(random::Variate::word);
    CHECK(words == alone.position(random::Variate::word));
    CHECK(words > kAll * (scale < 0x1p20 ? 1 : 2));
  }
  // Rare ones: a negative zero, and an offset that doubles leave open and integers refuse.
  for (const auto& [before, words] : {std::pair{6'448'682ULL, 6U}, {4'360'479'136ULL, 5U}}) {
    random::Source together(random::Key{1, 2, 3}, 3), alone(random::Key{1, 2, 3}, 3);
    for (random::Source* source : {&together, &alone}) source->skip_words(before);
    const noise::DiscreteLaplace law({0x1p20});
    law.draw_many(together, std::span(many).first(2));
    CHECK(law.draw(alone) == many[0]);
    CHECK(law.draw(alone) == many[1]);
    CHECK(together.position(random::Variate::word) == before + words);
  }
}

TEST_CASE("discrete noise refuses impossible scales, tapes end") {
  for (const double scale : {0.0, -1.0, 0x1p-11, 0x1p51, std::nan("")}) {
    CHECK_THROWS_AS(noise::DiscreteLaplace({scale}), std::invalid_argument);
    CHECK_THROWS_AS(noise::DiscreteGaussian({scale}), std::invalid_argument);
  }
  for (const noise::Ratio ratio : {noise::Ratio{-1.0, -1.0},
                                   {1.0, 0.0},
                                   {0x1p-1030, 0x1p-1030},
                                   {0x1p-1022, 0x1p-1030},
                                   {0x1p-1030, 0x1p-1022},
                                   {1.0, 0x1p-51},
                                   {1.0, 0x1p11},
                                   {std::nan(""), 1.0}}) {
    CHECK_THROWS_AS(noise::DiscreteLaplace{ratio}, std::invalid_argument);
  }
  for (const noise::Ratio ratio :
       {noise::Ratio{1.0, 0x1p10}, {1.0, 0x1p-50}, {0x1p-1022, 0x1p-1022}, {0x1p1023, 0x1p1023}}) {
    CHECK(noise::DiscreteLaplace(ratio).scale().value() == ratio.value());
  }
  const std::vector<std::uint64_t> words{1ULL << 62};
  noise::WordTape tape(words);
  const noise::DiscreteLaplace law({1.0});
  CHECK(law.draw(tape) == 1);  // 1/2 lies between the thresholds of 2 and of 1
  CHECK(tape.used() == 1);
  CHECK_THROWS_AS(law.draw(tape), std::out_of_range);
}

namespace {

using noise::Natural;

bool equal(const Natural& a, const Natural& b) { return a <= b && b <= a; }

// Numbers of up to six words, many of whose 32-bit halves are all zeros or all ones.
std::vector<Natural> naturals(std::size_t count) {
  random::Source source(random::Key{}, 5);
  std::vector<Natural> found{Natural(), Natural(1), Natural(~0ULL)};
  while (found.size() < count) {
    Natural n;
    for (std::uint64_t k = source.word() % 6 + 1; k > 0; --k) {
      std::uint64_t word = source.word();
      if (source.word() % 3 == 0) word |= ~0ULL >> 32;
      if (source.word() % 3 == 0) word &= ~0ULL << 32;
      if (source.word() % 5 == 0) word = ~0ULL;
      n = (n << 64) + Natural(word);
    }
    found.push_back(n >> source.word() % 70);
  }
  return found;
}

}  // namespace

TEST_CASE("numbers of any size keep the laws of arithmetic, and those of their lowest words") {
  const std::vector<Natural> numbers = naturals(90);
  const Natural one(1);
  for (const Natural& a : numbers) {
    CHECK(a.is_zero() == (a.bit_length() == 0));
    CHECK(a < Natural::power_of_two(a.bit_length()));
    CHECK((a.is_zero() || Natural::power_of_two(a.bit_length() - 1) <= a));
    for (const std::size_t k : {0, 1, 31, 32, 33, 63, 64, 65, 100, 700}) {
      CHECK(equal(a << k, a * Natural::power_of_two(k)));
      CHECK(equal(a >> k, a / Natural::power_of_two(k)));
      CHECK((a << k).bit_length() == (a.is_zero() ? 0 : a.bit_length() + k));
      if (k < 64) CHECK((a << k).low_word() == a.low_word() << k);
      if (k == 1) CHECK(equal(a << k, a + a));
    }
    for (const Natural& b : numbers) {
      const Natural sum = a + b, product = a * b;
      CHECK(equal(sum, b + a));
      CHECK(equal(sum - b, a));
      CHECK(equal(product, b * a));
      CHECK(equal(product + b, (a + one) * b));
      CHECK(sum.low_word() == a.low_word() + b.low_word());
      CHECK(product.low_word() == a.low_word() * b.low_word());
      CHECK((a < b) == !(b <= a));
      CHECK((b < sum) == !a.is_zero());
      if (b <= a) CHECK((a - b).low_word() == a.low_word() - b.low_word());
      if (b.is_zero()) continue;
      const Natural quotient = a / b, below = quotient * b;
      CHECK(below <= a);
      CHECK(a < below + b);
      CHECK(equal(product / b, a));
      CHECK(equal((product + (b - one)) / b, a));
    }
  }
}

TEST_CASE("enclosures of exp hold it, are narrow, and agree however many bits they have") {
  for (const std::uint64_t top : {0ULL, 1ULL, 2ULL, 3ULL, 10ULL, 997ULL, 1ULL << 40, ~0ULL}) {
    for (const std::uint64_t bottom : {1ULL, 3ULL, 64ULL, 1ULL << 33, ~0ULL - 58}) {
      if (top / bottom > 1ULL << 20) continue;  // exponents are some hundred at most
      const long double x = static_cast<long double>(top) / static_cast<long double>(bottom);
      const noise::Enclosure wide = noise::enclose_exp(Natural(top), Natural(bottom), 400);
      CHECK(wide.upper - wide.lower <= Natural(3));
      for (const std::size_t bits : {1, 20, 50, 63, 64, 127, 200}) {
        const noise::Enclosure e = noise::enclose_exp(Natural(top), Natural(bottom), bits);
        if (!e.lower.is_zero()) CHECK(equal(e.upper, e.lower + Natural(3)));
        CHECK((e.lower << (400 - bits)) <= wide.upper);
        CHECK(wide.lower <= (e.upper << (400 - bits)));
        CHECK(!(e.upper - e.lower).is_zero());
        if (bits > 50) continue;
        const long double value = std::ldexp(std::exp(-x), static_cast<int>(bits));
        CHECK(static_cast<long double>(e.lower.low_word()) <= value);
        CHECK(value <= static_cast<long double>(e.upper.low_word()));
      }
    }
  }
  // Where arithmetic with a few words more would say 1.
  const noise::Enclosure e = noise::enclose_exp(Natural(1), Natural::power_of_two(900), 64);
  CHECK(e.lower < Natural::power_of_two(64));
  CHECK(Natural::power_of_two(64) <= e.upper);
}
