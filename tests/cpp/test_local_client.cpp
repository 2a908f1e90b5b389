// Public coins, queries and randomizers of local reports: fixed vectors, exact bounds, no
// surprises.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/randomizers.hpp"

using namespace dpoco;
using local::BitLaw;
using local::PublicCoins;
using local::SubsetLaw;
using random::Source;
using random::Variate;

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
const random::Key kKey{1, 2, 3, 4, 5, 6, 7, 8};

}  // namespace

TEST_CASE("products of words are exact") {
  const std::uint64_t all = ~0ULL;
  CHECK(local::multiply(all, all).high == all - 1);
  CHECK(local::multiply(all, all).low == 1);
  CHECK(local::multiply(1ULL << 40, 1ULL << 40).high == 1ULL << 16);
  CHECK(local::multiply(0x123456789abcdef1ULL, 3).low == 0x369d0369d0369cd3ULL);
}

TEST_CASE("public coins meet their vectors") {
  CHECK(PublicCoins::mix(1) == 0x5692161d100b05e5ULL);
  PublicCoins coins(2024, 1, 0);
  CHECK(coins.word() == 0x07fd1ed401632a90ULL);
  CHECK(coins.word() == 0x34af7b4129858af0ULL);
  CHECK(coins.word() == 0xa1947039735c4badULL);
  std::vector<std::uint32_t> members(8);
  PublicCoins(2024, 3, 0).shuffle(8, 4, members.data());
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < 4; ++i) mask |= 1U << members[i];
  CHECK(mask == 0b10010011U);  // {0, 1, 4, 7}
}

TEST_CASE("bounded integers reject what would bias them") {
  // For n = 3 2^62, words whose low product is below 2^64 mod n = 2^62 are drawn again.
  std::vector<std::uint64_t> words{0, 4, 1};
  std::size_t used = 0;
  const auto next = [&] { return words[used++]; };
  CHECK(local::below(3ULL << 62, next) == 0);
  CHECK(used == 3);
}

TEST_CASE("bits keep within their bounds") {
  const BitLaw law(1.0);
  CHECK(law.low() == 2422408970132807ULL);
  CHECK(law.high() == 6584790284608185ULL);
  CHECK(law.threshold(0.37) == 5273640170548441ULL);
  CHECK(law.threshold(kMissing) == local::kUnits / 2);
  CHECK(law.threshold(kInfinite) == local::kUnits / 2);
  CHECK(law.threshold(1e300) == law.high());
  CHECK(law.threshold(-1e300) == law.low());
  CHECK(BitLaw(1e-16).high() == local::kUnits / 2);  // the margin, not less than a fair coin
  for (const double bad : {0.0, -1.0, 30.1, kMissing, kInfinite}) {
    CHECK_THROWS_AS(BitLaw{bad}, std::invalid_argument);
  }
}

TEST_CASE("subsets are ascending, complete, and cost the same words") {
  for (const std::uint64_t size : {1ULL, 5ULL, 40ULL, 99ULL}) {
    SubsetLaw law(100, size, 1.0);
    std::vector<std::int64_t> report(size);
    for (const std::int64_t own : {-1LL, 0LL, 50LL, 99LL, 100LL}) {
      for (std::uint64_t stream = 1; stream < 20; ++stream) {
        Source source(kKey, stream);
        law.draw(own, source, report);
        CHECK(source.position(Variate::word) == size + 1);
        for (std::size_t i = 0; i < size; ++i) {
          CHECK(report[i] >= (i == 0 ? 0 : report[i - 1] + 1));
          CHECK(report[i] < 100);
        }
      }
    }
  }
  CHECK(SubsetLaw(5, 2, 1e-17).inside() == 0);
  CHECK_THROWS_AS(SubsetLaw(5, 5, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(SubsetLaw(5, 0, 1.0), std::invalid_argument);
}

TEST_CASE("queries give one label the same value alone and among many") {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kLabels = 700;  // more than a block
  std::vector<double> matrix(kRows * kLabels);
  PublicCoins coins(1, 1, 0);
  for (double& each : matrix) each = static_cast<double>(coins.word() >> 11) * 0x1p-53;
  const double c[kRows] = {0.3, -0.2, 0.1, -0.3, 0.11};
  const local::LossScale scale{3, 0.1, 0.7, 0.05};
  std::vector<double> threshold(kLabels);
  std::vector<double> loss(kLabels);
  local::threshold_values(c, matrix, kLabels, threshold);
  local::loss_values(scale, kRows, matrix, kLabels, loss);
  for (std::size_t y = 0; y < kLabels; ++y) {
    double alone;
    local::threshold_values(c, std::span(matrix).subspan(y), kLabels, {&alone, 1});
    CHECK(alone == threshold[y]);
    local::loss_values(scale, kRows, std::span(matrix).subspan(y), kLabels, {&alone, 1});
    CHECK(alone == loss[y]);
    CHECK(std::abs(alone) <= 1.0);
  }
  const double odd[2] = {kMissing, 1.0};
  double value;
  local::threshold_values(odd, odd, 1, {&value, 1});
  CHECK(value == 0.0);
  local::loss_values({0, 0.0, 0.0, kInfinite}, 2, odd, 1, {&value, 1});
  CHECK(value == 0.0);
}
