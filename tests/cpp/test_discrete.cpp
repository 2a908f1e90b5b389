#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "dpoco/noise/discrete.hpp"

using namespace dpoco;
using noise::Decisions;

TEST_CASE("discrete noise decides alike in doubles and in integers of any size") {
  const random::Key key{1, 2, 3, 4, 5, 6, 7, 8};
  for (const double scale : {0x1p-10, 0.6, 3.0, 1e5, 0x1p20, 1e12, 0x1p50}) {
    random::Source first(key, 1), second(key, 1), third(key, 2), fourth(key, 2);
    std::array<std::int64_t, 40> fast{}, exact{};
    fill(noise::DiscreteLaplace({scale}), first, fast.size(), fast.data());
    fill(noise::DiscreteLaplace({scale}, Decisions::exact), second, exact.size(), exact.data());
    CHECK(fast == exact);
    CHECK(first.position(random::Variate::word) == second.position(random::Variate::word));
    fill(noise::DiscreteGaussian({scale}), third, fast.size(), fast.data());
    fill(noise::DiscreteGaussian({scale}, Decisions::exact), fourth, exact.size(), exact.data());
    CHECK(fast == exact);
    CHECK(third.position(random::Variate::word) == fourth.position(random::Variate::word));
  }
}

TEST_CASE("discrete noise refuses impossible scales, tapes end") {
  for (const double scale : {0.0, -1.0, 0x1p-11, 0x1p51, std::nan("")}) {
    CHECK_THROWS_AS(noise::DiscreteLaplace({scale}), std::invalid_argument);
    CHECK_THROWS_AS(noise::DiscreteGaussian({scale}), std::invalid_argument);
  }
  const std::vector<std::uint64_t> words{1ULL << 62};
  noise::WordTape tape(words);
  const noise::DiscreteLaplace law({1.0});
  CHECK(law.draw(tape) == 1);  // 1/2 lies between the thresholds of 2 and of 1
  CHECK(tape.used() == 1);
  CHECK_THROWS_AS(law.draw(tape), std::out_of_range);
}
