#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "dpoco/evaluation/best_sequences.hpp"

using dpoco::evaluation::best_sequence;
using dpoco::evaluation::interval_regret;
using dpoco::evaluation::LossTable;

TEST_CASE("costs of all limits, and the sequence with the fewest switches that attains the last") {
  const std::vector<double> losses = {1, 3, 1, 0, 1, 2, 0, 0};
  const auto best = best_sequence({losses, 4, 2}, 3);
  CHECK(best.costs == std::vector<double>{3, 3, 2, 2});
  CHECK(best.decisions == std::vector<std::uint32_t>{0, 1, 0, 0});
}

TEST_CASE("sequences that switch every round survive many collections of garbage") {
  constexpr std::uint64_t kRounds = 600;
  std::vector<double> losses(kRounds * 2, 1.0);
  for (std::uint64_t t = 0; t < kRounds; ++t) losses[2 * t + t % 2] = 0.0;
  const auto best = best_sequence({losses, kRounds, 2}, kRounds - 1);
  CHECK(best.costs.back() == 0.0);
  for (std::uint64_t t = 0; t < kRounds; ++t) CHECK(best.decisions[t] == t % 2);
}

TEST_CASE("interval regret with and without an allowance") {
  const std::vector<double> losses(8, 0.0);
  const std::vector<double> own = {0, 1, 1, 1, 1, 0, 0, 0};
  const LossTable table{losses, 8, 1};
  CHECK(interval_regret(table, own, 0.0) == 4.0);
  CHECK(interval_regret(table, own, 1.0) == 2.0);  // four rounds, tangent at 4: exact
  CHECK(interval_regret(table, own, 10.0) == 0.0);
}

TEST_CASE("impossible tables are refused") {
  const double one = 0.0;
  CHECK_THROWS_AS(best_sequence({{&one, 1}, 1, 1}, 1), std::invalid_argument);
  CHECK_THROWS_AS(best_sequence({{}, 0, 1}, 0), std::invalid_argument);
  CHECK_THROWS_AS(interval_regret({{}, 1, 0}, {&one, 1}, 0.0), std::invalid_argument);
}
