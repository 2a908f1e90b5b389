// What the couplings of continuous multiplicative weights need to know: normalisers and anchors.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "../../cpp/src/oco/gibbs_couplings.hpp"
#include "dpoco/core/errors.hpp"

using namespace dpoco;
using domains::Body;
using losses::GlmKind;
using losses::GlmLoss;
using losses::LossSum;
using losses::RecordClipper;

namespace {

constexpr Index kDimension = 3;

std::shared_ptr<const domains::Domain> box(Index d) {
  return std::make_shared<domains::Box>(Vector::Constant(d, -1.0), Vector::Constant(d, 1.0));
}

enum class Losses { linear, logistic, squared, matrix };

std::unique_ptr<LossSum> make_sum(Losses kind, std::shared_ptr<const domains::Domain> domain) {
  const RecordClipper clipper(domain->dimension(), 1.0, 2.0);
  const Body body = Body::of(std::move(domain), false);
  GlmLoss loss;
  if (kind == Losses::linear) return losses::make_linear_sum(body, clipper);
  if (kind == Losses::squared) return losses::make_glm_sum(body, loss, clipper);
  if (kind == Losses::matrix) return losses::make_quadratic_sum(body, 10.0, 10.0, 1.0);
  loss.kind = GlmKind::logistic;
  return losses::make_glm_sum(body, loss, clipper);
}

// Simpson's rule over [-1, 1].
template <class Function>
double integral(Function f) {
  constexpr int kCells = 20000;
  double sum = 0.0;
  for (int i = 0; i <= kCells; ++i) {
    const double weight = i == 0 || i == kCells ? 1.0 : (i % 2 == 1 ? 4.0 : 2.0);
    sum += weight * f(-1.0 + 2.0 * i / kCells);
  }
  return sum * (2.0 / kCells) / 3.0;
}

}  // namespace

TEST_CASE("the linear normaliser is the ratio of two integrals") {
  constexpr double kBeta = 0.7;
  constexpr double kLam = 2.0;
  for (const double slope : {0.0, 1.0, -0.3}) {
    for (const int before : {0, 1, 10, 200}) {
      const auto sum = make_sum(Losses::linear, box(1));
      const auto normalizer = [&] {
        const double one = 1.0;
        for (int k = 0; k < before; ++k) {
          sum->stage_vector({&one, 1});
          sum->commit();
        }
        return oco::make_log_normalizer(*sum, kBeta, kLam);
      }();
      sum->stage_vector({&slope, 1});
      sum->commit();
      normalizer->advance(*sum);
      const auto weight = [&](double total) {
        // Scaled to 1 at the left end, where the mass is.
        return integral([&](double x) {
          return std::exp(-kBeta * (before * (x + 1.0) + total * x + 0.5 * kLam * x * x));
        });
      };
      const double change = std::log(weight(slope) / weight(0.0));
      CHECK(normalizer->log_change() == doctest::Approx(change).epsilon(1e-8));
      CHECK(normalizer->log_ratio(slope * 0.3) ==
            doctest::Approx(-kBeta * slope * 0.3 - change).epsilon(1e-8));
      if (slope == 0.0) CHECK(normalizer->log_ratio(0.0) == 0.0);
    }
  }
}

TEST_CASE("there is no normaliser without a closed form") {
  const auto refused = [](Losses kind, std::shared_ptr<const domains::Domain> domain) {
    const auto sum = make_sum(kind, std::move(domain));
    CHECK_THROWS_AS(oco::make_log_normalizer(*sum, 1.0, 1.0), std::invalid_argument);
  };
  refused(Losses::linear, std::make_shared<domains::Simplex>(kDimension, 1.0));
  refused(Losses::linear, std::make_shared<domains::LpBall>(kDimension, 1.5, 1.0));
  refused(Losses::logistic, box(kDimension));
  refused(Losses::squared, std::make_shared<domains::LpBall>(kDimension, 2.0, 1.0));
  refused(Losses::matrix, box(kDimension));
}

TEST_CASE("tail quantile") {
  for (const double g : {1e-6, 1e-3, 0.2, 3.0}) {
    for (const double error : {1e-12, 1e-6, 1e-2}) {
      const double x = oco::tail_quantile(g, error);
      CHECK(g / x * std::exp(-0.5 * x * x) == doctest::Approx(error).epsilon(1e-9));
    }
  }
}

TEST_CASE("anchors: the oldest goes, all count, their age widens the window") {
  const oco::AnchorSettings settings{
      .count = 2, .noise_to_signal = 0.1, .error = 1e-4, .horizon = 100, .most = 5.0};
  for (const bool linear : {true, false}) {
    oco::Anchors anchors(1, settings, linear);
    const auto sum = make_sum(linear ? Losses::linear : Losses::squared, box(1));
    const double v = 0.5;
    linear ? sum->stage_vector({&v, 1}) : sum->stage_record({&v, 1}, 0.25);
    const double a = 0.8;
    const double b = -0.4;
    const double c = 0.1;
    anchors.add({&a, 1}, 0);
    anchors.add({&b, 1}, 4);
    const double young = anchors.width(10);
    CHECK(anchors.mean_loss(*sum) ==
          doctest::Approx(0.5 * (sum->staged_value({&a, 1}) + sum->staged_value({&b, 1})))
              .epsilon(1e-14));
    anchors.add({&c, 1}, 6);
    CHECK(anchors.mean_loss(*sum) ==
          doctest::Approx(0.5 * (sum->staged_value({&c, 1}) + sum->staged_value({&b, 1})))
              .epsilon(1e-14));
    // Mean draw 2 before, 5 after; g^2 a round.
    CHECK(young - anchors.width(10) == doctest::Approx(0.01 * 3.0).epsilon(1e-12));
    CHECK(anchors.width(11) - anchors.width(10) == doctest::Approx(0.01).epsilon(1e-12));

    Archive archive;
    anchors.write(archive);
    const std::string bytes = archive.take();
    oco::Anchors copy(1, settings, linear);
    ArchiveReader reader(bytes);
    copy.read(reader, sum->body(), 6);
    copy.add({&a, 1}, 7);
    CHECK(copy.mean_loss(*sum) ==
          doctest::Approx(0.5 * (sum->staged_value({&c, 1}) + sum->staged_value({&a, 1})))
              .epsilon(1e-14));
    ArchiveReader again(bytes);
    CHECK_THROWS_AS(copy.read(again, sum->body(), 5), StateError);  // drawn in the future
  }
}
