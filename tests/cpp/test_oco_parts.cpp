#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"

using namespace dpoco;
using domains::Body;
using losses::LossSum;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::shared_ptr<const domains::Domain>> all_domains() {
  Vector low(4);
  Vector high(4);
  low << -1.0, 0.0, 2.0, -3.0;
  high << 1.0, 0.5, 4.0, -1.0;
  return {std::make_shared<domains::LpBall>(4, 2.0, 1.5),
          std::make_shared<domains::LpBall>(4, 3.0, 0.7),
          std::make_shared<domains::LpBall>(4, 1.0, 2.0),
          std::make_shared<domains::LpBall>(4, kInfinity, 0.6),
          std::make_shared<domains::Box>(low, high),
          std::make_shared<domains::Simplex>(4, 2.0)};
}

class Tape {
 public:
  Tape() : source_({1, 2, 3, 4, 5, 6, 7, 8}, 9) {}
  double gaussian() { return source_.gaussian(); }
  Vector vector(Index n, double scale = 1.0) {
    Vector out(n);
    for (Index i = 0; i < n; ++i) out[i] = scale * gaussian();
    return out;
  }
  Vector inside(const Body& body) {
    const Vector far = vector(body.dimension());
    Vector near(body.dimension());
    body.project(view(far), view(near));
    return 0.9 * near;
  }
  random::Source& source() { return source_; }

 private:
  random::Source source_;
};

// A sum of each kind over the body, and how to stage a random loss into it.
struct Case {
  std::string name;
  std::unique_ptr<LossSum> sum;
  void stage(Tape& tape) const {
    const Index d = sum->body().ambient();
    const Vector v = tape.vector(d);
    if (name == "linear") return sum->stage_vector(view(v));
    if (name == "matrix") {
      RowMatrix root(d, d);
      for (Index i = 0; i < d; ++i) root.row(i) = tape.vector(d).transpose();
      const RowMatrix a = root * root.transpose();
      return sum->stage_matrix(view(a), view(v));
    }
    sum->stage_record(view(v), tape.gaussian());
  }
};

std::vector<Case> all_sums(const Body& body) {
  const losses::RecordClipper clipper(body.ambient(), 1.2, 2.0);
  std::vector<Case> cases;
  cases.push_back({"linear", losses::make_linear_sum(body, clipper)});
  const double radius = body.radius();
  cases.push_back({"matrix", losses::make_quadratic_sum(body, 3.0, 2.0, radius)});
  using losses::GlmKind;
  cases.push_back(
      {"squared", losses::make_glm_sum(body, {GlmKind::squared, 0.7, 1.0, -1.0, 1.0}, clipper)});
  cases.push_back({"squared rows",
                   losses::make_glm_rows(body, {GlmKind::squared, 0.7, 1.0, -1.0, 1.0}, clipper)});
  cases.push_back(
      {"logistic", losses::make_glm_sum(body, {GlmKind::logistic, 1.0, 1.0, 0.0, 1.0}, clipper)});
  cases.push_back(
      {"huber", losses::make_glm_sum(body, {GlmKind::huber, 1.0, 0.4, -1.0, 1.0}, clipper)});
  return cases;
}

}  // namespace

TEST_CASE("a body's coordinates keep lengths, and know its walls") {
  Tape tape;
  for (const auto& domain : all_domains()) {
    const Body body = Body::of(domain, false);
    const Index n = body.dimension();
    const Index d = body.ambient();
    CHECK(n == (body.simplex() ? d - 1 : d));
    Vector x(d);
    Vector back(n);
    Vector centre(d);
    const Vector zero = Vector::Zero(n);
    body.embed(view(zero), view(centre));
    Vector expected(d);
    domain->center(view(expected));
    CHECK((centre - expected).norm() < 1e-14);
    for (int k = 0; k < 200; ++k) {
      const Vector u = tape.inside(body);
      REQUIRE(body.contains(view(u), 0.0));
      body.embed(view(u), view(x));
      CHECK(domain->contains(view(x), 1e-12));
      CHECK(std::fabs((x - centre).norm() - u.norm()) < 1e-13);
      body.coordinates(view(x), view(back));
      CHECK((back - u).norm() < 1e-13);
      CHECK(u.norm() <= body.radius() * (1.0 + 1e-12));

      const Vector v = tape.vector(d);
      Vector w(n);
      const double offset = body.pull_back(view(v), view(w));
      CHECK(std::fabs(offset + w.dot(u) - v.dot(x)) < 1e-12);
      CHECK(w.dot(u) >= body.support_low(view(w)) - 1e-12);

      const Vector step = tape.vector(n);
      double low;
      double high;
      body.chord(view(u), view(step), low, high);
      CHECK(low < 0.0);
      CHECK(high > 0.0);
      for (const double t : {low, high}) {
        const Vector wall = u + t * step;
        const Vector beyond = u + 1.0001 * t * step;
        CHECK(body.contains(view(wall), 1e-9));
        CHECK_FALSE(body.contains(view(beyond), 0.0));
      }
    }
    // The support is attained by a linear minimisation.
    const Vector v = tape.vector(d);
    Vector w(n);
    const double offset = body.pull_back(view(v), view(w));
    Vector best(d);
    domain->minimize_linear(view(v), view(best));
    CHECK(std::fabs(offset + body.support_low(view(w)) - v.dot(best)) < 1e-12);
  }
}

TEST_CASE("a barrier's walls are the body's") {
  Tape tape;
  for (const auto& domain : all_domains()) {
    const Body body = Body::of(domain, false);
    if (body.kind() == Body::Kind::lp_ball && body.exponent() < 2.0) {
      CHECK_THROWS_AS(body.barrier(), std::invalid_argument);
      continue;
    }
    const auto barrier = body.barrier();
    const Vector u = tape.inside(body);
    const Vector step = tape.vector(body.dimension());
    double low;
    double high;
    body.chord(view(u), view(step), low, high);
    CHECK(barrier->distance(u, step) == doctest::Approx(high).epsilon(1e-9));
    CHECK(std::isfinite(barrier->value(u)));
    CHECK(std::isinf(barrier->value(u + 1.001 * high * step)));
  }
  const auto ball = std::make_shared<domains::LpBall>(3, 2.0, 1.0);
  CHECK(Body::of(ball, true).barrier() == nullptr);
}

TEST_CASE("domains without interior are refused") {
  Vector low = Vector::Zero(2);
  Vector high = Vector::Zero(2);
  high[0] = 1.0;
  CHECK_THROWS_AS(Body::of(std::make_shared<domains::Box>(low, high), false),
                  std::invalid_argument);
  CHECK_THROWS_AS(Body::of(std::make_shared<domains::Simplex>(1, 1.0), false),
                  std::invalid_argument);
}

TEST_CASE("sums add their losses, and derivatives are derivatives") {
  Tape tape;
  for (const auto& domain : all_domains()) {
    const Body body = Body::of(domain, false);
    const Index n = body.dimension();
    for (const Case& each : all_sums(body)) {
      CAPTURE(each.name);
      LossSum& sum = *each.sum;
      CHECK(sum.empty());
      const Vector u = tape.inside(body);
      double value = 0.0;
      Vector slope = Vector::Zero(n);
      RowMatrix bend = RowMatrix::Zero(n, n);
      Vector part(n);
      RowMatrix curve(n, n);
      for (int k = 0; k < 30; ++k) {
        if (k % 3 != 2) each.stage(tape);  // every third loss is a repetition
        value += sum.staged_value(view(u));
        sum.staged_gradient(view(u), view(part));
        slope += part;
        sum.staged_hessian(view(u), view(curve));
        bend += curve;
        const double least = sum.staged_minimum();
        for (int j = 0; j < 5; ++j) {
          CHECK(sum.staged_value(view(tape.inside(body))) >= least - 1e-12);
        }
        if (sum.rank() <= 1 && n > 1) {
          const auto direction = as_vector(sum.staged_direction());
          const RowMatrix outer = sum.staged_curvature(view(u)) * direction * direction.transpose();
          CHECK((outer - curve).norm() < 1e-12);
        }
        sum.commit();
      }
      CHECK_FALSE(sum.empty());
      CHECK(sum.value(view(u)) == doctest::Approx(value).epsilon(1e-11));
      sum.gradient(view(u), view(part));
      CHECK((part - slope).norm() < 1e-11);
      sum.hessian(view(u), view(curve));
      CHECK((curve - bend).norm() < 1e-11);

      const Vector step = tape.vector(n, 1e-3);
      const Vector ahead = u + step;
      const Vector behind = u - step;
      CHECK(sum.value(view(ahead)) - sum.value(view(behind)) ==
            doctest::Approx(2.0 * slope.dot(step)).epsilon(1e-3));
      if (each.name != "huber") {
        Vector up(n);
        Vector down(n);
        sum.gradient(view(ahead), view(up));
        sum.gradient(view(behind), view(down));
        CHECK(((up - down) - 2.0 * bend * step).norm() < 1e-4 * (up - down).norm() + 1e-12);
      }
      sum.prepare_line(view(u), view(step));
      for (const double t : {0.0, 1.0, -2.5}) {
        const Vector at = u + t * step;
        CHECK(sum.line_value(t) == doctest::Approx(sum.value(view(at))).epsilon(1e-11));
        sum.gradient(view(at), view(part));
        CHECK(sum.line_slope(t) == doctest::Approx(part.dot(step)).epsilon(1e-9));
      }

      RowMatrix least = RowMatrix::Zero(n, n);
      sum.add_least_hessian(view(least));
      for (int j = 0; j < 10; ++j) {
        const Vector at = tape.inside(body);
        const Vector along = tape.vector(n);
        sum.hessian(view(at), view(curve));
        CHECK(along.dot(curve * along) >= along.dot(least * along) - 1e-10);
      }
      if (each.name == "logistic" || each.name == "squared") CHECK(least.trace() > 0.1);

      Archive archive;
      sum.write(archive);
      const std::string bytes = archive.take();
      std::unique_ptr<LossSum> fresh;
      for (Case& other : all_sums(body)) {
        if (other.name == each.name) fresh = std::move(other.sum);
      }
      ArchiveReader reader(bytes);
      fresh->read(reader);
      reader.finish();
      CHECK(fresh->value(view(u)) == sum.value(view(u)));
    }
  }
}

TEST_CASE("malformed losses are the zero loss") {
  const Body body = Body::of(std::make_shared<domains::LpBall>(3, 2.0, 1.0), false);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Vector u = Vector::Constant(3, 0.3);
  for (const Case& each : all_sums(body)) {
    CAPTURE(each.name);
    LossSum& sum = *each.sum;
    const Vector fine = Vector::Constant(3, 0.5);
    const Vector broken = Vector::Constant(3, nan);
    RowMatrix saddle = RowMatrix::Identity(3, 3);
    saddle(0, 0) = -0.1;
    if (each.name == "linear") {
      sum.stage_vector(view(broken));
    } else if (each.name == "matrix") {
      sum.stage_matrix(view(saddle), view(fine));
    } else {
      sum.stage_record(view(fine), kInfinity);
    }
    CHECK(sum.staged_value(view(u)) == 0.0);
    CHECK(sum.staged_minimum() == 0.0);
    sum.commit();
    CHECK(sum.empty());
    CHECK(sum.value(view(u)) == 0.0);
  }
}

TEST_CASE("losses over their bounds are scaled down to them") {
  const Body body = Body::of(std::make_shared<domains::LpBall>(3, 2.0, 1.0), false);
  const losses::RecordClipper clipper(3, 1.0, 2.0);
  Vector g(3);
  const Vector u = Vector::Constant(3, 0.3);
  auto linear = losses::make_linear_sum(body, clipper);
  const Vector big = Vector::Constant(3, 1e9);
  linear->stage_vector(view(big));
  linear->staged_gradient(view(u), view(g));
  CHECK(g.norm() == doctest::Approx(1.0).epsilon(1e-9));
  CHECK(g.norm() <= 1.0);
  auto quadratic = losses::make_quadratic_sum(body, 1.0, 0.5, 1.0);
  const RowMatrix steep = 100.0 * RowMatrix::Identity(3, 3);
  quadratic->stage_matrix(view(steep), view(big));
  RowMatrix h(3, 3);
  quadratic->staged_hessian(view(u), view(h));
  CHECK(h(0, 0) <= 0.5);
  for (const double t : {-1.0, 1.0}) {
    const Vector edge = Vector::Constant(3, t / std::sqrt(3.0));
    quadratic->staged_gradient(view(edge), view(g));
    CHECK(g.norm() <= 1.0);
  }
}

TEST_CASE("no quadratic record exceeds the Lipschitz constant, not by overflow or cancellation") {
  Vector low(2);
  Vector high(2);
  low << 2.0, 2.0;
  high << 4.0, 4.0;
  const Body body = Body::of(std::make_shared<domains::Box>(low, high), false);
  auto sum = losses::make_quadratic_sum(body, 1.0, 1e5, body.radius());
  Tape tape;
  RowMatrix a(2, 2);
  Vector b(2);
  Vector g(2);
  const auto steepest = [&] {
    double most = 0.0;
    for (const double x : {-1.0, 1.0}) {
      for (const double y : {-1.0, 1.0}) {
        const Vector corner = (Vector(2) << x, y).finished();
        sum->staged_gradient(view(corner), view(g));
        most = g.allFinite() ? std::max(most, g.norm()) : kInfinity;
      }
    }
    return most;
  };
  for (const double size : {1e-300, 1e-10, 1.0, 1e10, 1e100, 1e300, 0.8e308}) {
    for (int k = 0; k < 50; ++k) {
      a << size, -size, -size, size;
      b << size * tape.gaussian(), size * tape.gaussian();
      if (k % 2 == 0) b = b.cwiseSign() * std::min(2.0 * size, 1.7e308);
      sum->stage_matrix(view(a), view(b));
      CHECK(steepest() <= 1.0 + 1e-12);
      // Nearly cancelling: b close to A c.
      const Vector centre = Vector::Constant(2, 3.0);
      a << size, 0.3 * size, 0.3 * size, size;
      b = a * centre + 1e-9 * size * tape.vector(2);
      sum->stage_matrix(view(a), view(b));
      CHECK(steepest() <= 1.0 + 1e-12);
    }
  }
}

TEST_CASE("repeated rows are stored once") {
  const Body body = Body::of(std::make_shared<domains::LpBall>(2, 2.0, 1.0), false);
  const losses::RecordClipper clipper(2, 1.0, 2.0);
  auto few = losses::make_glm_sum(body, {losses::GlmKind::logistic, 1.0, 1.0, 0.0, 1.0}, clipper);
  auto many = losses::make_glm_sum(body, {losses::GlmKind::logistic, 1.0, 1.0, 0.0, 1.0}, clipper);
  for (int k = 0; k < 4000; ++k) {
    Vector v(2);
    v << 0.1 * (k % 7), 0.05 * (k % 3);
    few->stage_record(view(v), k % 2);
    few->commit();
    v[0] += 1e-9 * k;
    many->stage_record(view(v), k % 2);
    many->commit();
  }
  Archive a;
  Archive b;
  few->write(a);
  many->write(b);
  CHECK(a.take().size() < 3000);
  CHECK(b.take().size() > 4000 * 5 * 8);
  const Vector u = Vector::Constant(2, 0.4);
  CHECK(few->value(view(u)) == doctest::Approx(many->value(view(u))).epsilon(1e-6));
}

TEST_CASE("switches keep to the schedule, the cap and the last round") {
  Tape tape;
  using mechanisms::SwitchRule;
  SwitchRule every({.horizon = 10, .block = 3, .forced = 1.0});
  std::vector<int> at;
  for (int t = 1; t <= 10; ++t) {
    if (every.advance(0.0, tape.source())) at.push_back(t);
  }
  CHECK(at == std::vector<int>{3, 6, 9});
  CHECK(tape.source().position(random::Variate::uniform) == 0);

  SwitchRule last({.horizon = 9, .block = 3, .forced = 1.0});
  int count = 0;
  for (int t = 1; t <= 9; ++t) count += last.advance(0.0, tape.source());
  CHECK(count == 2);  // none after the last round
  SwitchRule one({.horizon = 5, .block = 8, .forced = 1.0});
  CHECK_FALSE(one.open());

  SwitchRule capped({.horizon = 1000, .block = 1, .forced = 1.0, .max_switches = 4});
  for (int t = 1; t <= 1000; ++t) capped.advance(0.0, tape.source());
  CHECK(capped.switches() == 4);
  CHECK_FALSE(capped.open());

  SwitchRule never({.horizon = 1000, .block = 1, .forced = 0.0});
  for (int t = 1; t <= 1000; ++t) CHECK_FALSE(never.advance(0.0, tape.source()));
}

TEST_CASE("the stay probability is (1 - p) times the product of the factors") {
  Tape tape;
  constexpr int kDecisions = 200'000;
  mechanisms::SwitchRule rule({.horizon = 3 * kDecisions + 1, .block = 3, .forced = 0.1});
  for (int t = 0; t < 3 * kDecisions; ++t) {
    const double factor = t % 3 == 1 ? 0.0 : -0.2;
    CHECK(rule.wants_factor());
    rule.advance(factor, tape.source());
  }
  const double expected = 1.0 - 0.9 * std::exp(-0.4);
  const double deviation = std::sqrt(expected * (1.0 - expected) / kDecisions);
  const double measured = static_cast<double>(rule.switches()) / kDecisions;
  CHECK(std::fabs(measured - expected) < 5.0 * deviation);  // false alarm 6e-7
  CHECK(std::fabs(measured - (1.0 - 0.9 * std::exp(-0.2))) > 5.0 * deviation);
  CHECK(tape.source().position(random::Variate::uniform) == kDecisions);
}

TEST_CASE("a switch rule's state is checked") {
  Tape tape;
  const mechanisms::SwitchSettings settings{.horizon = 100, .block = 4, .forced = 0.5};
  mechanisms::SwitchRule rule(settings);
  for (int t = 0; t < 33; ++t) rule.advance(-0.1, tape.source());
  Archive archive;
  rule.write(archive);
  const std::string bytes = archive.take();
  mechanisms::SwitchRule again(settings);
  ArchiveReader reader(bytes);
  again.read(reader);
  CHECK(again.round() == 33);
  CHECK(again.switches() == rule.switches());
  CHECK(again.log_stay() == rule.log_stay());
  mechanisms::SwitchRule shorter({.horizon = 20, .block = 4, .forced = 0.5});
  ArchiveReader other(bytes);
  CHECK_THROWS_AS(shorter.read(other), StateError);
}
