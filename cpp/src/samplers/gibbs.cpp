#include "dpoco/samplers/gibbs.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/simd/elementary.hpp"
#include "gibbs_envelope.hpp"
#include "gibbs_line.hpp"
#include "hit_and_run.hpp"
#include "mala.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

using domains::Body;
using losses::LossSum;
using random::Source;

namespace {

GibbsSettings checked(GibbsSettings settings) {
  const auto positive = [](double x) { return x > 0.0 && std::isfinite(x); };
  if (!positive(settings.inverse_temperature) || !positive(settings.regularization)) {
    throw std::invalid_argument("inverse temperature and regularization must be positive");
  }
  if (!(settings.tolerance > 0.0) || !(settings.tolerance < 1.0)) {
    throw std::invalid_argument("tolerance must be in (0, 1)");
  }
  if (!(settings.chain_below >= 0.0)) {
    throw std::invalid_argument("chain_below must not be negative");
  }
  return settings;
}

}  // namespace

struct GibbsSampler::Work {
  Work(Body body_in, GibbsSettings settings_in)
      : body(std::move(body_in)),
        settings(checked(settings_in)),
        beta(settings.inverse_temperature),
        lam(settings.regularization),
        flat(body),
        modes(body, lam),
        envelope(body, beta, lam),
        line(beta, lam),
        walk(body, beta, lam, settings.tolerance),
        langevin(body, beta, lam, settings.tolerance),
        metric(body.dimension()),
        hessian(body.dimension(), body.dimension()),
        at(body.dimension()),
        slope(body.dimension()),
        draw(body.dimension()),
        factor(body.dimension()) {}

  // Chooses the method and does what the draws share.
  void prepare(Source& source, const LossSum& sum);
  void prepare_flat(Source& source, const LossSum& sum);
  void prepare_gaussian(const LossSum& sum);
  void prepare_chain(const LossSum& sum);
  void sample(Source& source, const LossSum& sum);  // into draw

  Body body;
  GibbsSettings settings;
  double beta;
  double lam;
  FlatSampler flat;
  ModeSolver modes;
  Envelope envelope;
  LineSampler line;
  HitAndRun walk;
  Langevin langevin;
  Whitening metric;
  double condition = 1.0;
  double scale = 1.0;
  Matrix hessian;
  Vector at;     // the Gaussian's mean, or the mode
  Vector slope;  // scratch; in one dimension the step of the line
  Vector draw;
  Cholesky factor;
  GibbsReport report;
};

void GibbsSampler::Work::prepare(Source& source, const LossSum& sum) {
  if (sum.dimension() != body.dimension()) {
    throw std::invalid_argument("the sum and the sampler differ in dimension");
  }
  report = {};
  if (sum.empty() || sum.kind() == LossSum::Kind::linear) {
    return prepare_flat(source, sum);
  }
  if (sum.kind() == LossSum::Kind::quadratic && body.kind() == Body::Kind::space) {
    return prepare_gaussian(sum);
  }
  modes.solve(sum, at);
  sum.hessian(at.data(), hessian.data());
  if (body.dimension() == 1) {
    report.method = GibbsMethod::line;
    slope[0] = 1.0 / std::sqrt(beta * (hessian(0, 0) + lam));
    return;
  }
  envelope.build(sum, at, hessian);
  report.method = GibbsMethod::envelope;
  report.predicted_acceptance = elementary::exp(envelope.log_acceptance());
  if (settings.exact_only) return;
  report.predicted_acceptance *= envelope.pilot_share(source, draw);
  if (report.predicted_acceptance < settings.chain_below) prepare_chain(sum);
}

void GibbsSampler::Work::prepare_flat(Source& source, const LossSum& sum) {
  report.method = GibbsMethod::truncated_gaussian;
  at.setZero();
  sum.gradient(at.data(), slope.data());
  at = -slope / lam;
  scale = 1.0 / std::sqrt(beta * lam);
  if (settings.exact_only) return;
  report.predicted_acceptance = flat.pilot_share(source, at, scale, draw);
  if (report.predicted_acceptance < settings.chain_below) prepare_chain(sum);
}

// F = F(0) + <F'(0), u> + u'Hu/2: a Gaussian of precision beta (H + lam I).
void GibbsSampler::Work::prepare_gaussian(const LossSum& sum) {
  report.method = GibbsMethod::gaussian;
  at.setZero();
  sum.gradient_and_hessian(at.data(), slope.data(), hessian.data());
  hessian.diagonal().array() += lam;
  factor.compute(hessian);
  // Positive definite but for rounding; whether it is, is private.
  double trifle = 1e-15 * hessian.trace();
  while (factor.info() != Eigen::Success && std::isfinite(trifle)) {
    hessian.diagonal().array() += trifle;
    factor.compute(hessian);
    trifle *= 4.0;
  }
  at = -slope;
  factor.solveInPlace(at);
  scale = 1.0 / std::sqrt(beta);
}

void GibbsSampler::Work::prepare_chain(const LossSum& sum) {
  modes.central(sum, beta, metric.centre, hessian);
  metric.factor.compute(hessian);
  if (metric.factor.info() != Eigen::Success) return;  // not convex: the envelope stays
  report.method = GibbsMethod::hit_and_run;
  const bool smooth = sum.kind() != LossSum::Kind::custom;
  if (body.dimension() > settings.langevin_above && smooth) {
    condition = langevin.condition(sum, metric);
    const auto walks = HitAndRun::steps(body.dimension(), settings.tolerance);
    // Its length grows with the condition number; a step costs about as much as one of the other.
    if (Langevin::steps(body.dimension(), settings.tolerance, condition) <=
        static_cast<double>(walks)) {
      report.method = GibbsMethod::langevin;
    }
  }
}

void GibbsSampler::Work::sample(Source& source, const LossSum& sum) {
  switch (report.method) {
    case GibbsMethod::truncated_gaussian:
      report.proposals += flat.sample(source, at, scale, draw);
      ++report.accepted;
      return;
    case GibbsMethod::gaussian:
      source.fill(random::Variate::gaussian, draw.data(), static_cast<std::size_t>(draw.size()));
      factor.matrixU().solveInPlace(draw);
      draw = at + scale * draw;
      ++report.proposals;
      ++report.accepted;
      return;
    case GibbsMethod::line: {
      double low = 0.0;
      double high = 0.0;
      body.chord(at.data(), slope.data(), low, high);
      line.reset();
      draw = at + line.sample(source, sum, at, slope, low, high, 0.0, 1.0) * slope;
      report.proposals += line.proposals();
      ++report.accepted;
      return;
    }
    case GibbsMethod::envelope:
      report.proposals += envelope.sample(source, sum, draw);
      ++report.accepted;
      return;
    case GibbsMethod::hit_and_run: {
      const std::uint64_t steps = walk.sample(source, sum, metric, draw);
      report.proposals += steps;
      report.accepted += steps;
      return;
    }
    case GibbsMethod::langevin:
      report.proposals += langevin.sample(source, sum, metric, condition, draw, report.accepted);
      return;
  }
}

GibbsSampler::GibbsSampler(Body body, GibbsSettings settings)
    : work_(std::make_unique<Work>(std::move(body), settings)) {}
GibbsSampler::~GibbsSampler() = default;
GibbsSampler::GibbsSampler(GibbsSampler&&) noexcept = default;

void GibbsSampler::sample(Source& source, const LossSum& sum, double* u) {
  sample_many(source, sum, 1, u);
}

void GibbsSampler::sample_many(Source& source, const LossSum& sum, Index count, double* out) {
  work_->prepare(source, sum);
  for (Index i = 0; i < count; ++i) {
    work_->sample(source, sum);
    std::copy(work_->draw.begin(), work_->draw.end(), out + i * work_->body.dimension());
  }
}

double GibbsSampler::mode(const LossSum& sum, double* u) {
  const double residual = work_->modes.solve(sum, work_->at);
  std::copy(work_->at.begin(), work_->at.end(), u);
  return residual;
}

const GibbsReport& GibbsSampler::nonprivate_report() const noexcept { return work_->report; }

std::uint64_t GibbsSampler::chain_length(Index dimension, double tolerance) {
  return HitAndRun::steps(dimension, tolerance);
}

}  // namespace dpoco::samplers
