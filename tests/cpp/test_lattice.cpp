#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "dpoco/noise/rounded_gaussian.hpp"

using namespace dpoco;
using noise::Decisions;

TEST_CASE("rounded Gaussians are decided alike in doubles and in integers of any size") {
  const random::Key key{1, 2, 3, 4, 5, 6, 7, 8};
  const noise::RoundedGaussian law(0x1.9p28);
  random::Source drawn(key, 1);
  const random::Source behind(key, 1);
  std::array<double, 128> values{};
  law.fill(drawn, values);
  for (std::size_t i = 0; i < values.size(); i += 9) {
    noise::PairDigits first(behind, i), second(behind, i);
    const random::PairWords pair = behind.words_behind_gaussian(i);
    CHECK(law.resolve(pair, first) == static_cast<std::int64_t>(values[i]));
    CHECK(law.resolve(pair, second, Decisions::exact) == static_cast<std::int64_t>(values[i]));
  }
}

TEST_CASE("rounded Gaussians refuse scales without a proof") {
  for (const double scale : {0.0, -1.0, 0x1p9, 0x1p31}) {
    CHECK_THROWS_AS(noise::RoundedGaussian{scale}, std::invalid_argument);
  }
}
