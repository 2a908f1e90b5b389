// The solver of the coupled leader, its factor, and the rows kernels below them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "dpoco/oco/newton.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

using namespace dpoco;
using oco::CholeskyFactor;
using oco::CoupledRegularizedLeader;
using oco::CoupledRegularizedLeaderSettings;
using oco::LeaderCoupling;
using random::Key;
using random::Source;

namespace {

std::vector<double> gaussians(std::size_t n, std::uint32_t key) {
  std::vector<double> out(n);
  Source(Key{key}, 0).fill(random::Variate::gaussian, out);
  return out;
}

std::unique_ptr<losses::LossSum> glm_sum(Index d, losses::GlmKind kind, bool unbounded = false) {
  losses::GlmLoss loss;
  loss.kind = kind;
  if (kind == losses::GlmKind::logistic) loss.label_low = 0.0;
  return losses::make_glm_sum(
      domains::Body::of(std::make_shared<domains::LpBall>(d, 2.0, 1.0), unbounded), loss,
      losses::RecordClipper(d, 1.0, 2.0));
}

std::unique_ptr<CoupledRegularizedLeader> leader(Index d, std::uint64_t horizon, double sigma,
                                                 double eta) {
  const CoupledRegularizedLeaderSettings own{
      .rule = {.horizon = horizon, .block = 2, .forced = 0.1, .max_switches = 50},
      .step_size = eta,
      .noise_scale = sigma,
      .barrier_weight = 0.2,
      .clip_high = 0.05,
      .clip_low = 0.05,
      .smoothness = 0.25};
  return std::make_unique<CoupledRegularizedLeader>(glm_sum(d, losses::GlmKind::logistic), own,
                                                    std::make_unique<Source>(Key{7, 8}, 9));
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> found;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    try {
      found.push_back(simd::select(name));
    } catch (const std::invalid_argument&) {
    }
  }
  simd::select("auto");
  return found;
}

// Rows v and labels of a short stream, fed to a sum.
void commit_all(losses::LossSum& sum, std::size_t rounds, std::size_t d) {
  const auto rows = gaussians(rounds * d, 11);
  const auto labels = gaussians(rounds, 12);
  for (std::size_t t = 0; t < rounds; ++t) {
    sum.stage_record(std::span(rows).subspan(t * d, d), labels[t]);
    sum.commit();
    if (t % 5 == 0) sum.commit();  // counted twice
  }
}

}  // namespace

TEST_CASE("a factor updated many times is that of the updated matrix") {
  for (const Index n : {Index{1}, Index{2}, Index{7}, Index{20}}) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> h(size * size, 0.0);
    for (std::size_t i = 0; i < size; ++i) h[i * size + i] = 0.5 + static_cast<double>(i);
    CholeskyFactor updated(n);
    CholeskyFactor fresh(n);
    REQUIRE(updated.compute(h));
    constexpr std::size_t kUpdates = 512;
    const auto v = gaussians(kUpdates * size, 3);
    for (std::size_t k = 0; k < kUpdates; ++k) {
      const double scale = k % 4 == 0 ? 0.0 : 0.3;
      const auto row = std::span(v).subspan(k * size, size);
      updated.update(scale, row);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) h[i * size + j] += scale * row[i] * row[j];
      }
    }
    REQUIRE(fresh.compute(h));
    CHECK(std::fabs(updated.log_determinant() - fresh.log_determinant()) < 1e-10);
    std::vector<double> a(size);
    std::vector<double> b(size);
    const auto first = std::span(v).first(size);
    updated.solve(first, a);
    fresh.solve(first, b);
    updated.whiten(first, b);
    double whitened = 0.0;
    double direct = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      double back = 0.0;  // H a = v
      for (std::size_t j = 0; j < size; ++j) back += h[i * size + j] * a[j];
      CHECK(std::fabs(back - v[i]) < 1e-10);
      whitened += b[i] * b[i];
      direct += v[i] * a[i];
    }
    CHECK(std::fabs(whitened - direct) < 1e-10);
    h[0] = -1.0;
    CHECK_FALSE(fresh.compute(h));
  }
}

// A square turned by a rotation with cosine 0.6, and a point of it as close to two walls as given.
TEST_CASE("the factor in a vertex keeps the curvature of the walls that are farther away") {
  RowMatrix rows(4, 2);
  rows << 0.6, 0.8, -0.6, -0.8, -0.8, 0.6, 0.8, -0.6;
  const Vector bounds = Vector::Ones(4);
  const oco::Regularizer regularizer{
      .dimension = 2,
      .inverse_step = 3.0,
      .weight = 0.5,
      .barrier = std::make_shared<domains::PolytopeBarrier>(rows, bounds, Vector::Zero(2)),
      .rows = rows,
      .bounds = bounds};
  const std::vector<double> none(4, 0.0);
  std::vector<double> matrix(4);
  CholeskyFactor factor(2);
  for (const double close : {0.5, 1e-3, 1e-6, 1e-9, 1e-12}) {
    for (const double other : {0.5, 1e-3, 1e-8}) {
      const std::vector<double> u{0.6 * (1.0 - close) - 0.8 * (1.0 - other),
                                  0.8 * (1.0 - close) + 0.6 * (1.0 - other)};
      REQUIRE(regularizer.factor(u, none, matrix, factor));
      const Vector slack = bounds - rows * Eigen::Map<const Vector>(u.data(), 2);
      const auto bend = [&](Index j) {
        return 3.0 + 0.5 / (slack[j] * slack[j]) + 0.5 / (slack[j + 1] * slack[j + 1]);
      };
      const double expected = std::log(bend(0)) + std::log(bend(2));
      CHECK(std::fabs(factor.log_determinant() - expected) < 1e-7);
    }
  }
}

TEST_CASE("log1p keeps small numbers") {
  for (const double x : {1e-300, 1e-17, 1e-9, 0.3, 5.0, 1e9, -1e-9, -0.7}) {
    CHECK(std::fabs(elementary::log1p(x) / std::log1p(x) - 1.0) < 1e-15);
  }
}

TEST_CASE("sums of rows agree with loops, in all instruction sets bit for bit") {
  for (const auto kind : {losses::GlmKind::logistic, losses::GlmKind::huber}) {
    for (const std::size_t d : {std::size_t{1}, std::size_t{3}, std::size_t{11}, std::size_t{40}}) {
      for (const std::size_t rounds :
           {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{300}}) {
        const auto sum = glm_sum(static_cast<Index>(d), kind, true);
        commit_all(*sum, rounds, d);
        const auto u = gaussians(d, 13);
        std::vector<double> expected(d * (d + 1), 0.0);
        {
          const auto rows = gaussians(rounds * d, 11);
          const auto labels = gaussians(rounds, 12);
          std::vector<double> part(d * d);
          for (std::size_t t = 0; t < rounds; ++t) {
            const double count = t % 5 == 0 ? 2.0 : 1.0;
            sum->stage_record(std::span(rows).subspan(t * d, d), labels[t]);
            sum->staged_gradient(u, std::span(part).first(d));
            for (std::size_t i = 0; i < d; ++i) expected[i] += count * part[i];
            sum->staged_hessian(u, part);
            for (std::size_t i = 0; i < d * d; ++i) expected[d + i] += count * part[i];
          }
        }
        std::vector<double> first;
        for (const std::string& name : instruction_sets()) {
          simd::select(name);
          std::vector<double> got(d * (d + 1));
          const std::span<double> slope = std::span(got).first(d);
          const std::span<double> bend = std::span(got).subspan(d);
          sum->gradient(u, slope);
          sum->hessian(u, bend);
          simd::select("auto");
          for (std::size_t i = 0; i < got.size(); ++i) {
            CHECK(std::fabs(got[i] - expected[i]) < 1e-12 * (1.0 + static_cast<double>(rounds)));
          }
          if (first.empty()) first = got;
          CHECK(first == got);
          sum->gradient_and_hessian(u, slope, bend);
          CHECK(first == got);
        }
      }
    }
  }
}

namespace {

// A sum that says of itself what it is told to, and counts passes over its rows.
class Watched final : public losses::LossSum {
 public:
  Watched(std::unique_ptr<losses::LossSum> sum, bool beyond, int* hessians)
      : LossSum(sum->kind(), sum->body(), sum->rank(), sum->bounds()),
        sum_(std::move(sum)),
        beyond_(beyond),
        hessians_(hessians) {}
  bool beyond_cache() const noexcept override { return beyond_; }
  void hessian(std::span<const double> u, std::span<double> out) override {
    ++*hessians_;
    sum_->hessian(u, out);
  }
  void gradient_and_hessian(std::span<const double> u, std::span<double> slope,
                            std::span<double> bend) override {
    sum_->gradient_and_hessian(u, slope, bend);
  }
  bool empty() const noexcept override { return sum_->empty(); }
  double value(std::span<const double> u) override { return sum_->value(u); }
  void gradient(std::span<const double> u, std::span<double> out) override {
    sum_->gradient(u, out);
  }
  void add_least_hessian(std::span<double> out) const override { sum_->add_least_hessian(out); }
  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    sum_->prepare_line(u, step);
  }
  double line_value(double t) override { return sum_->line_value(t); }
  double line_slope(double t) override { return sum_->line_slope(t); }
  void stage_record(std::span<const double> x, double label) override {
    sum_->stage_record(x, label);
  }
  double staged_value(std::span<const double> u) const override { return sum_->staged_value(u); }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    sum_->staged_gradient(u, out);
  }
  double staged_curvature(std::span<const double> u) const override {
    return sum_->staged_curvature(u);
  }
  std::span<const double> staged_direction() const override { return sum_->staged_direction(); }
  void staged_hessian(std::span<const double> u, std::span<double> out) const override {
    sum_->staged_hessian(u, out);
  }
  double staged_minimum() override { return sum_->staged_minimum(); }
  void commit() override { sum_->commit(); }
  void write(Archive& archive) const override { sum_->write(archive); }
  void read(ArchiveReader& archive) override { sum_->read(archive); }

 private:
  std::unique_ptr<losses::LossSum> sum_;
  bool beyond_;
  int* hessians_;
};

struct Played {
  std::vector<double> decisions;
  std::string state;
  double density;  // at the centre, after all
  std::uint64_t switches;
  int hessians;  // that took a pass of their own
};

// Records of all kinds: clipped, repeated, zero, malformed.
Played play_watched(const std::shared_ptr<const domains::Domain>& domain, losses::GlmKind kind,
                    CoupledRegularizedLeaderSettings own, bool beyond) {
  const Index d = domain->dimension();
  const auto size = static_cast<std::size_t>(d);
  losses::GlmLoss loss;
  loss.kind = kind;
  if (kind == losses::GlmKind::logistic) loss.label_low = 0.0;
  Played played{};
  CoupledRegularizedLeader learner(
      std::make_unique<Watched>(losses::make_glm_rows(domains::Body::of(domain, false), loss,
                                                      losses::RecordClipper(d, 1.0, 2.0)),
                                beyond, &played.hessians),
      own, std::make_unique<Source>(Key{7, 8}, 9));
  const std::uint64_t rounds = own.rule.horizon;
  auto rows = gaussians(rounds * size, 31);
  std::vector<double> labels = gaussians(rounds, 32);
  for (std::size_t t = 0; t < rounds; ++t) {
    double* const row = rows.data() + t * size;
    if (t % 5 == 0) std::copy_n(rows.data(), size, row);
    if (t % 11 == 0) std::fill_n(row, size, 0.0);
    if (t % 13 == 0) labels[t] = std::numeric_limits<double>::quiet_NaN();
  }
  played.decisions.resize(rounds * size);
  learner.run(learner.enter(), std::span(rows).first(rounds * d), std::span(labels).first(rounds),
              {}, std::span(played.decisions).first(rounds * d), {});
  Archive archive;
  learner.write(archive);
  played.state = archive.take();
  played.density = learner.nonprivate_log_density(std::vector<double>(size, 0.0));
  played.switches = learner.switches();
  return played;
}

}  // namespace

TEST_CASE("with losses beyond the cache, decisions stay and passes for Hessians go") {
  int gone = 0;
  int switches = 0;
  for (const Index d : {Index{1}, Index{2}, Index{9}}) {
    Vector half(d);
    for (Index i = 0; i < d; ++i) half[i] = i % 2 == 0 ? 1.0 : 1e-3;
    const std::vector<std::shared_ptr<const domains::Domain>> bodies{
        std::make_shared<domains::LpBall>(d, 2.0, 1.0),
        std::make_shared<domains::Box>(-half, half)};
    for (const auto& body : bodies) {
      for (const auto kind : {losses::GlmKind::logistic, losses::GlmKind::huber}) {
        for (const double sigma : {1e-2, 5.0, 1e4}) {
          CoupledRegularizedLeaderSettings own{.rule = {.horizon = 300, .block = 2, .forced = 0.1},
                                               .step_size = 1.0 / sigma,
                                               .noise_scale = sigma,
                                               .barrier_weight = 0.01,
                                               .clip_high = 0.05,
                                               .clip_low = 0.05,
                                               .lipschitz = 10.0,
                                               .smoothness = 1.0};
          for (const std::uint64_t horizon : {std::uint64_t{1}, std::uint64_t{300}}) {
            own.rule.horizon = horizon;
            const Played plain = play_watched(body, kind, own, false);
            const Played beyond = play_watched(body, kind, own, true);
            CHECK(plain.decisions == beyond.decisions);
            CHECK(plain.density == beyond.density);
            CHECK((d > 2 || plain.state == beyond.state));
            gone += plain.hessians - beyond.hessians;
            switches += static_cast<int>(plain.switches);
          }
        }
      }
    }
  }
  CHECK(switches > 700);
  CHECK(4 * gone > 3 * switches);
}

// In nine dimensions the wide noise holds the point close to the sphere, where a model's gradient
// may grow before it falls. The steps that go on all the same end at the same point, to rounding.
TEST_CASE("with losses beyond the cache, models are minimised close to a wall as well") {
  const CoupledRegularizedLeaderSettings own{.rule = {.horizon = 3000, .block = 2, .forced = 0.1},
                                             .step_size = 1e-4,
                                             .noise_scale = 1e4,
                                             .barrier_weight = 0.01,
                                             .clip_high = 0.05,
                                             .clip_low = 0.05,
                                             .lipschitz = 10.0,
                                             .smoothness = 1.0};
  const auto ball = std::make_shared<domains::LpBall>(9, 2.0, 1.0);
  const Played plain = play_watched(ball, losses::GlmKind::logistic, own, false);
  const Played beyond = play_watched(ball, losses::GlmKind::logistic, own, true);
  CHECK(plain.decisions == beyond.decisions);
  CHECK(2 * plain.hessians > 3 * static_cast<int>(plain.switches));
  CHECK(2 * beyond.hessians < static_cast<int>(beyond.switches));
}

TEST_CASE("the leader is found at every scale of the noise") {
  constexpr std::size_t d = 6;
  for (double sigma = 1e-2; sigma < 2e6; sigma *= 10.0) {
    const auto own = leader(d, 400, sigma, 1.0 / (sigma * std::sqrt(static_cast<double>(d))));
    const auto rows = gaussians(400 * d, 21);
    const std::vector<double> labels(400, 1.0);
    own->run(own->enter(), std::span(rows).first(400 * d), std::span(labels).first(400), {}, {},
             {});
    CHECK(own->switches() > 0);
    // With little noise the losses press the leader against the boundary, where the gradient
    // changes by more than that from one double to the next.
    CHECK(own->nonprivate_residual() <= (sigma < 10.0 ? 1e-7 : 1e-9));
  }
}

TEST_CASE("runs are the same bits in all instruction sets, and go on after a restore") {
  constexpr std::size_t d = 5;
  constexpr std::size_t rounds = 300;
  const auto rows = gaussians(rounds * d, 31);
  const std::vector<double> labels(rounds, 1.0);
  std::string expected;
  for (const std::string& name : instruction_sets()) {
    simd::select(name);
    const auto whole = leader(d, rounds, 5.0, 0.1);
    whole->run(whole->enter(), std::span(rows).first(rounds * d), std::span(labels).first(rounds),
               {}, {}, {});
    Archive archive;
    whole->write(archive);
    const std::string state = archive.take();
    if (expected.empty()) expected = state;
    CHECK(state == expected);
  }
  simd::select("auto");
  const auto half = leader(d, rounds, 5.0, 0.1);
  half->run(half->enter(), std::span(rows).first(151 * d), std::span(labels).first(151), {}, {},
            {});
  Archive archive;
  half->write(archive);
  const std::string state = archive.take();
  const auto again = leader(d, rounds, 5.0, 0.1);
  ArchiveReader reader(state);
  again->read(reader);
  reader.finish();
  again->run(again->enter(), std::span(rows).subspan(151 * d, (rounds - 151) * d),
             std::span(labels).first(rounds - 151), {}, {}, {});
  Archive last;
  again->write(last);
  CHECK(last.take() == expected);
  CHECK_THROWS_AS(again->observe(rounds, std::span(rows).first(d), 0.0), HorizonExceeded);
  for (std::size_t cut = 0; cut < state.size(); cut += 64) {
    const auto other = leader(d, rounds, 5.0, 0.1);
    ArchiveReader part(std::string_view(state).substr(0, cut));
    CHECK_THROWS_AS(other->read(part), StateError);
  }
}
