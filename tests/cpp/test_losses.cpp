#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"

using namespace dpoco;
using namespace dpoco::losses;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// In long double; the exact norm up to 2^-60.
long double exact_norm(const Vector& x, double factor, double order) {
  long double top = 0.0L;
  for (const double v : x) top = std::max(top, std::fabs(static_cast<long double>(v * factor)));
  if (std::isinf(order) || top == 0.0L) return top;
  long double sum = 0.0L;
  for (const double v : x)
    sum += std::pow(std::fabs(static_cast<long double>(v * factor)) / top,
                    static_cast<long double>(order));
  return top * std::pow(sum, 1.0L / static_cast<long double>(order));
}

}  // namespace

TEST_CASE("labels and multipliers are finite for any label") {
  const GlmLoss loss{GlmKind::squared, 1.0, 1.0, -2.0, 3.0};
  CHECK(loss.clip_label(-5.0) == -2.0);
  CHECK(loss.clip_label(5.0) == 3.0);
  CHECK(loss.clip_label(0.5) == 0.5);
  CHECK(loss.clip_label(kInf) == 3.0);
  CHECK(loss.clip_label(-kInf) == -2.0);
  CHECK(loss.clip_label(kNaN) == -2.0);
  CHECK(GlmLoss::label_multiplier(kNaN) == 0.0);
  CHECK(GlmLoss::label_multiplier(-kInf) == 0.0);
  CHECK(GlmLoss::label_multiplier(1e300) == 1.0);
}

TEST_CASE("logistic loss neither overflows nor cancels") {
  const GlmLoss loss{GlmKind::logistic, 1.0, 1.0, 0.0, 1.0};
  CHECK(loss.value(800.0, 0.0) == 800.0);
  CHECK(loss.value(-800.0, 0.0) == 0.0);
  CHECK(loss.derivative(-40.0, 0.0) == doctest::Approx(std::exp(-40.0)).epsilon(1e-13));
  CHECK(loss.curvature(40.0, 0.0) == doctest::Approx(std::exp(-40.0)).epsilon(1e-13));
  CHECK(loss.curvature(0.0, 0.0) == 0.25);
}

TEST_CASE("a clipped record is never longer than its bound") {
  std::mt19937_64 generator(11);
  std::normal_distribution<double> gaussian;
  std::uniform_real_distribution<double> uniform(-8.0, 8.0);
  for (const double order : {1.0, 1.2, 2.0, 3.0, 21.0, 1e6, kInf}) {
    for (const Index n : {1, 2, 7, 10, 100}) {
      const RecordClipper clip(n, 1.7, order);
      const RecordClipper both(n, 1.7, order, 0.9);
      for (int trial = 0; trial < 200; ++trial) {
        // Half of the records sit within rounding of the boundary.
        Vector x(n);
        for (double& v : x) v = gaussian(generator);
        const double size = trial % 2 == 0 ? 1.7 / static_cast<double>(exact_norm(x, 1.0, order))
                                           : std::pow(10.0, uniform(generator));
        x *= size;
        const double factor = clip.multiplier(view(x));
        CHECK(factor > 0.0);
        CHECK(factor <= 1.0);
        CHECK(exact_norm(x, factor, order) <= 1.7L);
        if (exact_norm(x, 1.0, order) < 1.69L) CHECK(factor == 1.0);
        if (factor < 1.0)
          CHECK(static_cast<double>(exact_norm(x, factor, order)) > 1.7 * (1.0 - 1e-12));
        const double joint = both.multiplier(view(x));
        CHECK(joint <= factor);
        CHECK(exact_norm(x, joint, order) <= 1.7L);
        CHECK(exact_norm(x, joint, 2.0) <= 0.9L);
      }
    }
  }
}

TEST_CASE("records no factor can serve are zero records") {
  for (const double order : {1.0, 1.5, 2.0, 3.0, 1e6, kInf}) {
    const RecordClipper clip(3, 1.0, order, 2.0);
    for (const double bad : {kNaN, kInf, -kInf}) {
      for (Index i = 0; i < 3; ++i) {
        Vector x = Vector::Ones(3);
        x[i] = bad;
        CHECK(clip.multiplier(view(x)) == 0.0);
      }
    }
    const Vector zero = Vector::Zero(3);
    CHECK(clip.multiplier(view(zero)) == 1.0);
    const Vector tiny = Vector::Constant(3, 5e-324);
    CHECK(clip.multiplier(view(tiny)) == 1.0);
    const Vector huge{{1e300, 0.0, 0.0}};
    CHECK(clip.multiplier(view(huge)) == doctest::Approx(1e-300).epsilon(1e-12));
  }
  // Would need a subnormal factor.
  const RecordClipper small(1, 1e-10, 2.0);
  const Vector top = Vector::Constant(1, 1e308);
  CHECK(small.multiplier(view(top)) == 0.0);
}

TEST_CASE("a record on the boundary of the largest-entry norm is untouched") {
  const RecordClipper clip(4, 1.0, kInf);
  const Vector x{{1.0, -1.0, 0.5, 0.0}};
  CHECK(clip.multiplier(view(x)) == 1.0);
}

TEST_CASE("a bound implies one of the Euclidean norm, and the least factor is the least normal") {
  for (const double order : {1.0, 1.5, 2.0, 3.0, 21.0, kInf}) {
    for (const Index n : {1, 7, 100}) {
      // The longest vectors are axes or, from order 2 on, have equal entries.
      const double entry = std::isinf(order) ? 1.0 : std::pow(static_cast<double>(n), -1.0 / order);
      const double longest = std::max(1.0, std::sqrt(static_cast<double>(n)) * entry);
      CHECK(RecordClipper(n, 1.7, order).largest_l2() ==
            doctest::Approx(1.7 * longest).epsilon(1e-13).scale(0));
      CHECK(RecordClipper(n, 1.7, order, 1.7).largest_l2() <= 1.7);
      CHECK(RecordClipper(n, 1.7, order, 0.9).largest_l2() == 0.9);
    }
  }
  const RecordClipper clip(1, 0x1p-30, kInf);
  const auto of = [&](double entry) { return clip.multiplier({&entry, 1}); };
  CHECK(of(0x1p-30) == 1.0);
  CHECK(of(0x1.0000000000001p-30) < 1.0);
  CHECK(of(-0x1p990) == doctest::Approx(0x1p-1020).epsilon(1e-12).scale(0));
  CHECK(of(0x1p992) == 0.0);
  const double top = 0x1p1000;
  CHECK(RecordClipper(1, 0x1.0000000000004p-22, kInf).multiplier({&top, 1}) == 0x1p-1022);
  CHECK(RecordClipper(1, 0x1.0000000000003p-22, kInf).multiplier({&top, 1}) == 0.0);
  const double pair[2] = {0x1p-31, kNaN};
  CHECK(RecordClipper(2, 1.0, kInf, 2.0).multiplier(pair) == 0.0);
}

TEST_CASE("bad bounds are refused") {
  CHECK_THROWS_AS(RecordClipper(0, 1.0, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 0.0, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, kInf, 2.0), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 1.0, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 1.0, kNaN), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 1.0, 2.0, -1.0), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 1.0, 2.0, 0.0), std::invalid_argument);
  CHECK_THROWS_AS(RecordClipper(2, 1.0, 2.0, kNaN), std::invalid_argument);
}
