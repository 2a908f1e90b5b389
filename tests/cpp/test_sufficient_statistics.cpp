// The compiled sum of a fit: the same bits in any portions, records that are not finite, one
// release.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/frank_wolfe/sufficient_statistics.hpp"

using namespace dpoco;
using frank_wolfe::SufficientStatistics;
using random::Key;
using random::Source;

namespace {

constexpr std::size_t kDimension = 5, kRecords = 40, kSize = 20;

struct Data {
  std::vector<double> rows = std::vector<double>(kRecords * kDimension);
  std::vector<double> labels = std::vector<double>(kRecords);
  explicit Data(double spoil = 0.3) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(static_cast<double>(i * i));
    for (std::size_t i = 0; i < kRecords; ++i) labels[i] = std::cos(static_cast<double>(i));
    rows[7] = spoil;
  }
};

SufficientStatistics made(double scale = 1.0, std::uint64_t records = kRecords,
                          std::uint64_t size = kSize, double weight = 0.7) {
  return {losses::RecordClipper(kDimension, 1.0, 2.0),
          losses::GlmLoss{},
          {records, size, weight, scale},
          std::make_unique<Source>(Key{1, 2, 3}, 4)};
}

std::vector<double> released(const Data& data, std::size_t portion, double scale = 1.0) {
  SufficientStatistics fit = made(scale);
  for (std::size_t i = 0; i < kRecords; i += portion) {
    const std::size_t n = std::min(portion, kRecords - i);
    fit.add(std::span(data.rows).subspan(i * kDimension, n * kDimension),
            std::span(data.labels).subspan(i, n));
  }
  std::vector<double> out(kSize);
  fit.release(out);
  return out;
}

}  // namespace

TEST_CASE("a sum does not depend on how records come") {
  const Data data;
  CHECK(released(data, kRecords) == released(data, 3));
  CHECK(released(data, 1) == released(data, 7));
  CHECK(released(data, 1) != released(data, 1, 0.0));
}

TEST_CASE("a record that is not finite is a zero record and draws as much") {
  Data zero;
  for (std::size_t j = 0; j < kDimension; ++j) zero.rows[kDimension + j] = 0.0;
  for (const double spoil :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK(released(Data(spoil), 4) == released(zero, 4));
  }
}

TEST_CASE("a sum is released once, when all records are in") {
  const Data data;
  SufficientStatistics fit = made();
  std::vector<double> out(kSize);
  CHECK_THROWS_AS(fit.release(out), RoundOrderError);
  fit.add(data.rows, data.labels);
  CHECK_THROWS_AS(fit.add(std::span(data.rows).first(kDimension), std::span(data.labels).first(1)),
                  RoundOrderError);
  CHECK_THROWS_AS(fit.release(std::span(out).first(3)), std::invalid_argument);
  fit.release(out);
  CHECK_THROWS_AS(fit.release(out), RoundOrderError);
}

TEST_CASE("impossible settings of a sum are refused") {
  CHECK_THROWS_AS(made(1.0, 0), std::invalid_argument);
  CHECK_THROWS_AS(made(1.0, kRecords, kSize + 1), std::invalid_argument);
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(made(1.0, kRecords, kSize, weight), std::invalid_argument);
  }
  for (const double scale : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(made(scale), std::invalid_argument);
  }
  SufficientStatistics fit = made();
  const Data data;
  CHECK_THROWS_AS(fit.add(data.rows, std::span(data.labels).first(3)), std::invalid_argument);
}
