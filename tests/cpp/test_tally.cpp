#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "dpoco/core/participants.hpp"
#include "dpoco/statistics/tally.hpp"

using dpoco::IntervalParticipants;
using dpoco::Person;
using dpoco::statistics::Block;
using dpoco::statistics::Columns;
using dpoco::statistics::Entry;
using dpoco::statistics::Tally;

TEST_CASE("each record changes one cell of a block, in its group") {
  Block bins;
  bins.entry = Entry::bin;
  bins.cells = 3;
  bins.unit = 4.0;
  bins.edges = {0.0, 1.0};
  Block sums;
  sums.entry = Entry::value;
  sums.unit = 10.0;
  sums.low = -2.0;
  sums.high = 2.0;
  sums.half = 2.0;
  const Tally tally({bins, sums}, 2);
  REQUIRE(tally.size() == 8);
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{-1.0, 0.5, 9.0, nothing, 1.0};
  const std::vector<std::int32_t> group{0, 1, 7, 0, 1};  // 7 is no group: the last one
  const std::vector<std::uint8_t> passed{1, 1, 1, 1, 0};
  Columns records;
  records.numbers = {x};
  records.group = group;
  records.passed = passed;
  records.records = x.size();
  std::vector<std::int64_t> cells(8);
  tally.add(records, cells);
  CHECK(cells == std::vector<std::int64_t>{4, 0, 0, 0, 4, 4, -5, 12});
}

TEST_CASE("totals are kept within a limit, and begin with 0 again") {
  Block block;
  block.cells = 3;
  block.entry = Entry::code;
  const Tally tally({block}, 1);
  std::vector<std::int64_t> cells{-9, 4, 9};
  std::vector<double> total(3);
  tally.take(cells, 5, 0.5, total);
  CHECK(total == std::vector<double>{-2.5, 2.0, 2.5});
  CHECK(cells == std::vector<std::int64_t>{0, 0, 0});
  std::vector<double> short_total(2);
  CHECK_THROWS_AS(tally.take(cells, 5, 0.5, short_total), std::invalid_argument);
}

TEST_CASE("totals saturate") {
  Block block;
  block.unit = 0x1p50;
  const Tally tally({block}, 1);
  Columns records;
  records.records = 3000;
  std::vector<std::int64_t> cells(1);
  tally.add(records, cells);
  CHECK(cells[0] == std::int64_t{1} << 61);
  block.unit = 0x1p51;
  CHECK_THROWS_AS(Tally({block}, 1), std::invalid_argument);
}

TEST_CASE("people have several records in an interval, and few intervals") {
  IntervalParticipants people({2, 2, 10}, 2);
  const std::vector<Person> records{{1, 1}, {1, 1}, {2, 2}, {1, 1}};
  std::vector<std::uint8_t> passed(4);
  const auto admit = [&](std::uint64_t interval) {
    people.admit(interval, records, passed);
    return passed;
  };
  const std::vector<std::uint8_t> some{1, 1, 1, 0};
  const std::vector<std::uint8_t> none{0, 0, 0, 0};
  CHECK(admit(0) == some);
  CHECK(admit(1) == none);
  CHECK(admit(2) == some);
  CHECK(admit(4) == none);
}
