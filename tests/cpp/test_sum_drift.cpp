// Sums of losses: rounding must not carry two neighbouring streams apart. Summands of 0.6 units in
// the last place are rounded up above a power of two and, to half as large a unit, down below it.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/loss_sum.hpp"

using namespace dpoco;
using domains::Body;
using losses::GlmKind;
using losses::LossSum;

namespace {

constexpr int kHeight = 16;
constexpr std::size_t kHalf = std::size_t{1} << kHeight;

// `first`, then ones up to 2^h or just below it, then as many tiny ones: of 0.6 units of a sum of
// 2^height.
std::vector<double> summands(double first, int height = kHeight) {
  std::vector<double> all(2 * kHalf, 1.0);
  all[0] = first;
  for (std::size_t i = kHalf; i < all.size(); ++i) all[i] = 0.6 * std::ldexp(1.0, height - 52);
  return all;
}

// By how much more than one summand the sums of two streams differ that differ in the first.
double excess(const std::function<double(const std::vector<double>&)>& sum, int height = kHeight) {
  return sum(summands(1.0, height)) - sum(summands(0.0, height)) - 1.0;
}

Body line() { return Body::of(std::make_shared<domains::LpBall>(1, 2.0, 1.0), false); }

std::unique_ptr<LossSum> squared() {
  return losses::make_glm_sum(line(), {GlmKind::squared, 1.0, 1.0, -1.0, 1.0},
                              losses::RecordClipper(1, 1.0, 2.0));
}

double hessian(LossSum& sum) {
  double out = 0.0;
  sum.hessian({&out, 1}, {&out, 1});
  return out;
}
double slope(LossSum& sum) {
  const double zero = 0.0;
  double out = 0.0;
  sum.gradient({&zero, 1}, {&out, 1});
  return out;
}
double constant(LossSum& sum) {
  const double zero = 0.0;
  return sum.value({&zero, 1});
}

}  // namespace

TEST_CASE("plain sums of the streams used here drift apart") {
  const double drift = excess([](const std::vector<double>& all) {
    volatile double sum = 0.0;
    for (const double x : all) sum = sum + x;
    return static_cast<double>(sum);
  });
  CHECK(drift == doctest::Approx(std::ldexp(1.0, 2 * kHeight - 53)).epsilon(1e-3));
}

TEST_CASE("sums of squared losses do not drift apart") {
  // weight 1: Hessian 2 v^2, slope -2 y v, constant y^2
  const auto both = [](const std::function<double(LossSum&)>& read,
                       const std::function<void(LossSum&, double)>& stage) {
    return excess([&](const std::vector<double>& all) {
      const auto sum = squared();
      for (const double x : all) {
        stage(*sum, x);
        sum->commit();
      }
      return read(*sum);
    });
  };
  CHECK(std::fabs(both([](LossSum& s) { return 0.5 * hessian(s); },
                       [](LossSum& s, double x) {
                         const double v = std::sqrt(x);
                         s.stage_record({&v, 1}, 0.0);
                       })) < 1e-10);
  CHECK(std::fabs(both([](LossSum& s) { return 0.5 * slope(s); },
                       [](LossSum& s, double x) { s.stage_record({&x, 1}, -1.0); })) < 1e-10);
  CHECK(std::fabs(both(constant, [](LossSum& s, double x) {
          const double v = 0.0;
          s.stage_record({&v, 1}, std::sqrt(x));
        })) < 1e-10);
}

TEST_CASE("sums of quadratic losses do not drift apart") {
  for (const bool matrix : {true, false}) {
    const double drift = excess([&](const std::vector<double>& all) {
      const auto sum = losses::make_quadratic_sum(line(), 10.0, 10.0, 1.0);
      for (const double x : all) {
        const double a = matrix ? x : 0.0;
        const double b = matrix ? 0.0 : -x;
        sum->stage_matrix({&a, 1}, {&b, 1});
        sum->commit();
      }
      return matrix ? hessian(*sum) : slope(*sum);
    });
    CHECK(std::fabs(drift) < 1e-10);
  }
}

TEST_CASE("sums over kept rows do not drift apart") {
  // Distinct rows: the label does not matter to the slope of the Huber loss outside its threshold.
  // Gradients are added up in eight lanes, 2^13 ones in each; slopes on a line in one.
  for (const bool line_slope : {true, false}) {
    const auto sum_of = [&](const std::vector<double>& all) {
      const auto sum = losses::make_glm_rows(line(), {GlmKind::huber, 1.0, 1.0, -4.0, 4.0},
                                             losses::RecordClipper(1, 1.0, 2.0));
      double label = -3.0;
      for (const double x : all) {
        sum->stage_record({&x, 1}, label);
        sum->commit();
        label = std::nextafter(label, 0.0);
      }
      if (!line_slope) return slope(*sum);
      const double zero = 0.0;
      const double one = 1.0;
      sum->prepare_line({&zero, 1}, {&one, 1});
      return sum->line_slope(0.0);
    };
    CHECK(std::fabs(excess(sum_of, line_slope ? kHeight : kHeight - 3)) < 1e-10);
  }
}

TEST_CASE("a saved sum of squared losses goes on bit for bit, and impossible rests are refused") {
  const auto feed = [](LossSum& sum, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const double v = std::sin(static_cast<double>(i));
      sum.stage_record({&v, 1}, std::cos(static_cast<double>(i)));
      sum.commit();
    }
  };
  const auto whole = squared();
  feed(*whole, 0, 1000);
  const auto half = squared();
  feed(*half, 0, 400);
  Archive archive;
  half->write(archive);
  const std::string bytes = archive.take();
  const auto rest = squared();
  ArchiveReader reader(bytes);
  rest->read(reader);
  feed(*rest, 400, 1000);
  CHECK(hessian(*rest) == hessian(*whole));
  CHECK(slope(*rest) == slope(*whole));
  CHECK(constant(*rest) == constant(*whole));
}

TEST_CASE("rests are told from what no sum leaves") {
  const double sums[] = {1.0, 0.0, -3.0};
  const double small[] = {0x1p-53, 0.0, -0x1p-52};
  CHECK(are_rests(sums, small));
  for (const double wrong : {1e-3, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const double rests[] = {wrong, 0.0, 0.0};
    CHECK(!are_rests(sums, rests));
    const double zero = 0.0;
    CHECK(are_rests({&wrong, 1}, {&zero, 1}) == std::isfinite(wrong));
  }
  const double none[] = {0.0, 0x1p-1074, 0.0};
  CHECK(!are_rests(sums, none));
}
