// Selection of vertices and the learner on them: no allocation per round, exact state, projections.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "dpoco/core/double_double.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"

using namespace dpoco;
using domains::Box;
using domains::Domain;
using domains::LpBall;
using domains::Simplex;
using domains::VertexSet;
using frank_wolfe::FrankWolfe;
using mechanisms::SelectionNoise;
using random::Key;
using random::Source;
using random::Variate;

namespace {

constexpr Index kDimension = 70;
constexpr std::uint64_t kRounds = 60;

std::vector<std::shared_ptr<const Domain>> polytopes(Index d) {
  RowMatrix vertices(2 * d + 5, d);
  Source source(Key{8}, 0);
  source.fill(Variate::gaussian, view(vertices));
  return {std::make_shared<LpBall>(d, 1.0, 2.0), std::make_shared<Simplex>(d, 0.5),
          std::make_shared<Box>(Vector::Constant(d, -1.0), Vector::Constant(d, 0.5)),
          std::make_shared<VertexSet>(vertices)};
}

std::unique_ptr<FrankWolfe> make(const std::shared_ptr<const Domain>& domain, SelectionNoise noise,
                                 double scale, std::uint64_t batch = 1) {
  const auto d = domain->dimension();
  std::vector<double> start(static_cast<std::size_t>(d));
  domain->center(start);
  const double infinity = std::numeric_limits<double>::infinity();
  return std::make_unique<FrankWolfe>(
      domain,
      frank_wolfe::LeafRule(losses::GlmLoss{}, losses::RecordClipper(d, 1.0, infinity), 4.0),
      frank_wolfe::FrankWolfeSettings{.horizon = kRounds, .batch = batch},
      frank_wolfe::make_selection_rule(domain,
                                       {.noise = noise,
                                        .scale = scale,
                                        .exponent = 2.0 / 3.0,
                                        .diameters = {domain->diameter(1.0), infinity, infinity}},
                                       std::make_unique<Source>(Key{1, 2, 3}, 4)),
      start);
}

struct Stream {
  std::vector<double> features = std::vector<double>(kRounds * kDimension);
  std::vector<double> labels = std::vector<double>(kRounds);
  Stream() {
    Source source(Key{9}, 0);
    source.fill(Variate::gaussian, features);
    source.fill(Variate::gaussian, labels);
    features[3] = std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace

TEST_CASE("run equals observe, also through a saved state, on every polytope") {
  const Stream stream;
  for (const auto& domain : polytopes(kDimension)) {
    for (const SelectionNoise noise : {SelectionNoise::gumbel, SelectionNoise::laplace}) {
      for (const double scale : {0.0, 1.0}) {
        auto whole = make(domain, noise, scale, 7);
        std::vector<double> decisions(kRounds * kDimension);
        whole->run(whole->enter(), std::span(stream.features).first(kRounds * kDimension),
                   std::span(stream.labels).first(kRounds), {},
                   std::span(decisions).first(kRounds * kDimension), {});
        auto single = make(domain, noise, scale, 7);
        std::vector<double> theta(static_cast<std::size_t>(kDimension));
        for (std::uint64_t t = 0; t < kRounds; ++t) {
          single->decision(theta);
          CHECK(std::memcmp(theta.data(), decisions.data() + t * kDimension,
                            theta.size() * sizeof(double)) == 0);
          CHECK(domain->contains(theta, 1e-9));
          single->observe(t, std::span(stream.features).subspan(t * kDimension, kDimension),
                          stream.labels[t]);
          Archive archive;
          single->write(archive);
          const std::string bytes = archive.take();
          auto restored = make(domain, noise, scale, 7);
          ArchiveReader reader(bytes);
          restored->read(reader);
          reader.finish();
          single = std::move(restored);
        }
        CHECK(single->round() == kRounds);
      }
    }
  }
}

TEST_CASE("a state is refused by a learner of other noise") {
  const auto domain = polytopes(5)[0];
  auto learner = make(domain, SelectionNoise::gumbel, 1.0);
  const std::vector<double> row(5, 0.5);
  learner->observe(0, row, 0.0);
  Archive archive;
  learner->write(archive);
  const std::string bytes = archive.take();
  for (const double scale : {0.0, 2.0}) {
    ArchiveReader reader(bytes);
    CHECK_THROWS_AS(make(domain, SelectionNoise::gumbel, scale)->read(reader), StateError);
  }
  ArchiveReader reader(bytes);
  CHECK_THROWS_AS(make(domain, SelectionNoise::laplace, 1.0)->read(reader), StateError);
}

TEST_CASE("a round that was not decided, or is past the horizon, is refused") {
  const Stream stream;
  auto learner = make(polytopes(kDimension)[0], SelectionNoise::gumbel, 1.0);
  CHECK_THROWS_AS(learner->observe(1, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  learner->observe(0, std::span(stream.features).first(kDimension), 0.0);
  CHECK_THROWS_AS(learner->observe(0, std::span(stream.features).first(kDimension), 0.0),
                  RoundOrderError);
  CHECK_THROWS_AS(
      learner->run(learner->enter(), std::span(stream.features).first(kRounds * kDimension),
                   std::span(stream.labels).first(kRounds), {}, {}, {}),
      HorizonExceeded);
  CHECK(learner->round() == 1);
}

TEST_CASE("selections draw the same number of variates whatever the direction") {
  for (const auto& domain : polytopes(kDimension)) {
    for (const SelectionNoise noise : {SelectionNoise::gumbel, SelectionNoise::laplace}) {
      auto selection = mechanisms::make_vertex_selection(domain, noise);
      Source source(Key{5}, 0);
      CHECK(selection->accounts_for(source, 0));
      std::vector<double> direction(static_cast<std::size_t>(kDimension), 0.0);
      std::vector<double> vertex(direction.size());
      for (std::uint64_t k = 1; k <= 20; ++k) {
        selection->select(direction, 1.0, source, vertex);
        CHECK(selection->accounts_for(source, k));
        CHECK_FALSE(selection->accounts_for(source, k + 1));
        CHECK(domain->contains(vertex, 1e-9));
        for (std::size_t i = 0; i < direction.size(); ++i) {
          direction[i] = std::ldexp(i % 3 == 0 ? 1.0 : -1.0, static_cast<int>(30 * k) - 300);
        }
      }
    }
  }
}

TEST_CASE("only polytopes with known vertices are taken") {
  CHECK_THROWS_AS(mechanisms::make_vertex_selection(std::make_shared<LpBall>(3, 2.0, 1.0),
                                                    SelectionNoise::gumbel),
                  std::invalid_argument);
  CHECK_THROWS_AS(mechanisms::make_vertex_selection(polytopes(3)[0], SelectionNoise::exponential),
                  std::invalid_argument);
  CHECK_THROWS_AS(make(polytopes(3)[0], SelectionNoise::gumbel, -1.0), std::invalid_argument);
  CHECK_THROWS_AS(VertexSet(RowMatrix(0, 3)), std::invalid_argument);
}

TEST_CASE("double-doubles keep 30 digits, and projections of columns of any scale need them") {
  const DoubleDouble third = DoubleDouble(1.0) / DoubleDouble(3.0);
  const DoubleDouble rest = DoubleDouble(1.0) - (third + third + third);
  CHECK(std::fabs(rest.high) < 0x1p-100);
  CHECK(third.low != 0.0);
  const DoubleDouble square = exact_product(1.0 + 0x1p-40, 1.0 + 0x1p-40);
  CHECK(static_cast<double>(square - DoubleDouble(1.0) - DoubleDouble(0x1p-39)) == 0x1p-80);
  CHECK(exact_sum(1.0, 0x1p-70).low == 0x1p-70);

  RowMatrix corners(4, 2);
  corners << -1e6, -1e-6, 1e6, -1e-6, -1e6, 1e-6, 1e6, 1e-6;
  const VertexSet box(corners);
  const std::vector<double> x = {3e5, 4e-7};
  std::vector<double> y(2);
  box.project(x, y);
  CHECK(std::fabs(y[0] - x[0]) < 1e-6);
  CHECK(std::fabs(y[1] - x[1]) < 1e-18);
}
