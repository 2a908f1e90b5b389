#include "dpoco/samplers/gibbs.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "cutting_planes.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "gibbs_envelope.hpp"
#include "gibbs_line.hpp"
#include "hit_and_run.hpp"
#include "mala.hpp"
#include "mode.hpp"
#include "proximal.hpp"

namespace dpoco::samplers {

using domains::Body;
using losses::LossSum;
using random::Source;

namespace {

// If the residual of the mode is above this, the losses have kinks there.
constexpr double kSmooth = 1e-6;
// With kinks: the largest gap of the best tangent, in nats of the log density.
constexpr double kGap = 0.1;
// The number of planes for the start of a chain, and for a mode.
constexpr std::uint64_t kFewPlanes = 200;
constexpr std::uint64_t kMostPlanes = 2000;
// After this many proposals a chain takes over. The losses of users are slow to evaluate.
constexpr std::uint64_t kMostProposals = 100000;

GibbsSettings require_settings(GibbsSettings settings) {
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
        settings(require_settings(settings_in)),
        beta(settings.inverse_temperature),
        lam(settings.regularization),
        flat(body),
        modes(body, lam),
        planes(body, lam),
        secants(body, beta, lam),
        envelope(body, beta, lam),
        line(beta, lam),
        walk(body, beta, lam, settings.tolerance),
        langevin(body, beta, lam),
        proximal(body, beta, lam, settings.lipschitz),
        metric(body.dimension()),
        below(body.dimension()),
        bend(body.dimension(), body.dimension()),
        hessian(body.dimension(), body.dimension()),
        at(body.dimension()),
        slope(body.dimension()),
        draw(body.dimension()),
        factor(body.dimension()) {}

  // Chooses the method and does the work that all draws share.
  void prepare(Source& source, LossSum& sum);
  void prepare_flat(Source& source, LossSum& sum);
  void prepare_gaussian(LossSum& sum);
  void prepare_chain(LossSum& sum);
  void prepare_kinks(LossSum& sum);
  void prepare_chosen_chain(LossSum& sum);
  void prepare_chain_on_kinks(LossSum& sum);
  void sample(Source& source, LossSum& sum);  // into draw
  bool sample_envelope(Source& source, LossSum& sum);
  std::uint64_t most_proposals(LossSum& sum) const;

  Body body;
  GibbsSettings settings;
  double beta;
  double lam;
  FlatSampler flat;
  ModeSolver modes;
  CuttingPlanes planes;
  SecantCurvature secants;
  Envelope envelope;
  LineSampler line;
  HitAndRun walk;
  Langevin langevin;
  Proximal proximal;
  Whitening metric;
  std::uint64_t length = 0;  // length of a Langevin chain
  double scale = 1.0;
  bool kinks = false;  // `below` belongs to the sum
  Minorant below;
  Matrix bend;
  Matrix hessian;
  Vector at;     // the Gaussian's mean, or the mode
  Vector slope;  // scratch; in one dimension the step of the line
  Vector draw;
  Cholesky factor;
  GibbsReport report;
};

void GibbsSampler::Work::prepare(Source& source, LossSum& sum) {
  if (sum.dimension() != body.dimension()) {
    throw std::invalid_argument("the sum and the sampler differ in dimension");
  }
  report = {};
  kinks = false;
  if (settings.chain != GibbsChain::automatic) return prepare_chosen_chain(sum);
  if (sum.empty() || sum.kind() == LossSum::Kind::linear) {
    return prepare_flat(source, sum);
  }
  if (sum.kind() == LossSum::Kind::quadratic && body.kind() == Body::Kind::space) {
    return prepare_gaussian(sum);
  }
  if (!sum.has_hessian() || modes.solve(sum, at) > kSmooth) return prepare_kinks(sum);
  sum.hessian(view(at), view(hessian));
  if (body.dimension() == 1) {
    report.method = GibbsMethod::line;
    slope[0] = 1.0 / std::sqrt(beta * (hessian(0, 0) + lam));
    return;
  }
  envelope.build(sum, at, hessian, false);
  report.method = GibbsMethod::envelope;
  report.predicted_acceptance = elementary::exp(envelope.log_acceptance());
  if (settings.exact_only) return;
  report.predicted_acceptance *= envelope.pilot_share(source, draw);
  if (report.predicted_acceptance < settings.chain_below) prepare_chain(sum);
}

void GibbsSampler::Work::prepare_flat(Source& source, LossSum& sum) {
  report.method = GibbsMethod::truncated_gaussian;
  at.setZero();
  sum.gradient(view(at), view(slope));
  at = -slope / lam;
  scale = 1.0 / std::sqrt(beta * lam);
  if (settings.exact_only) return;
  report.predicted_acceptance = flat.pilot_share(source, at, scale, draw);
  if (report.predicted_acceptance < settings.chain_below) prepare_chain(sum);
}

// F = F(0) + <F'(0), u> + u'Hu/2, so the law is a Gaussian with precision beta (H + lam I).
void GibbsSampler::Work::prepare_gaussian(LossSum& sum) {
  report.method = GibbsMethod::gaussian;
  at.setZero();
  sum.gradient_and_hessian(view(at), view(slope), view(hessian));
  hessian.diagonal().array() += lam;
  factor.compute(hessian);
  // Rounding may make the matrix indefinite. This is private, so the code increases the diagonal
  // and does not fail.
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

void GibbsSampler::Work::prepare_chain(LossSum& sum) {
  modes.central(sum, beta, metric.centre, hessian);
  metric.factor.compute(hessian);
  if (metric.factor.info() != Eigen::Success) return;  // not convex: the envelope remains
  report.method = GibbsMethod::hit_and_run;
  const bool smooth = sum.kind() != LossSum::Kind::custom;
  if (body.dimension() > settings.langevin_above && smooth) {
    const double condition = langevin.condition(sum, metric);
    const auto walks = HitAndRun::steps(body.dimension(), settings.tolerance);
    // The length of the Langevin chain grows with the condition number. Its step costs about as
    // much as a hit-and-run step.
    const double steps = Langevin::steps(body.dimension(), settings.tolerance, condition);
    if (steps <= static_cast<double>(walks)) {
      report.method = GibbsMethod::langevin;
      length = static_cast<std::uint64_t>(steps);
    }
  }
}

void GibbsSampler::Work::prepare_chosen_chain(LossSum& sum) {
  length = GibbsSampler::chosen_length(body, settings);
  if (settings.chain == GibbsChain::proximal) {
    report.method = GibbsMethod::proximal;
    return;
  }
  report.method = GibbsMethod::envelope;
  if (sum.kind() != LossSum::Kind::custom) prepare_chain(sum);
  if (report.method == GibbsMethod::envelope) prepare_chain_on_kinks(sum);
  const bool langevin_asked = settings.chain == GibbsChain::langevin;
  report.method = langevin_asked ? GibbsMethod::langevin : GibbsMethod::hit_and_run;
}

// Needs only values and subgradients: a combination of tangents replaces the tangent at the mode.
void GibbsSampler::Work::prepare_kinks(LossSum& sum) {
  kinks = true;
  const std::uint64_t most = settings.exact_only ? settings.most_planes : kFewPlanes;
  planes.solve(sum, kGap / beta, most, below);
  if (!std::isfinite(below.height) || !below.slope.allFinite() || !below.at.allFinite()) {
    // Losses that are not numbers have no law. The draw still ends, anywhere in the body.
    below.height = 0.0;
    below.slope.setZero();
    below.at.setZero();
  }
  if (body.dimension() == 1) {
    report.method = GibbsMethod::line;
    at = below.at;
    double curvature = 0.0;
    draw.setOnes();
    slope[0] = secants.width(sum, 0.95 * at, draw, curvature);
    return;
  }
  envelope.build(below);
  report.method = GibbsMethod::envelope;
}

// The metric is the curvature over a standard deviation of the law, because a Hessian does not show
// kinks.
void GibbsSampler::Work::prepare_chain_on_kinks(LossSum& sum) {
  if (!kinks) planes.solve(sum, kGap / beta, kFewPlanes, below);
  const bool space = body.kind() == Body::Kind::space;
  secants.measure(sum, space ? below.at : Vector(0.95 * below.at), bend);
  modes.central(below, bend, beta, metric.centre, hessian);
  metric.factor.compute(hessian);
  if (metric.factor.info() != Eigen::Success || !hessian.allFinite()) {
    metric.centre = 0.9 * below.at;
    metric.factor.compute(beta * lam * Matrix::Identity(hessian.rows(), hessian.cols()));
  }
  report.method = GibbsMethod::hit_and_run;
}

std::uint64_t GibbsSampler::Work::most_proposals(LossSum& sum) const {
  if (settings.exact_only) return settings.most_proposals;
  const std::uint64_t steps = HitAndRun::steps(body.dimension(), settings.tolerance);
  if (kinks) return steps;
  return sum.kind() == LossSum::Kind::custom ? 4 * steps : kMostProposals;
}

// Returns false if a chain has to take over.
bool GibbsSampler::Work::sample_envelope(Source& source, LossSum& sum) {
  const std::uint64_t most = most_proposals(sum);
  bool accepted = false;
  report.proposals += envelope.sample(source, sum, draw, most, accepted);
  if (!accepted && settings.exact_only && envelope.whole()) {
    envelope.build(sum, at, hessian, true);
    report.proposals += envelope.sample(source, sum, draw, most, accepted);
  }
  report.accepted += accepted ? 1 : 0;
  return accepted || settings.exact_only;
}

void GibbsSampler::Work::sample(Source& source, LossSum& sum) {
  switch (report.method) {
    case GibbsMethod::truncated_gaussian: {
      const bool patient = settings.exact_only;
      bool inside = false;
      report.proposals += flat.sample(source, at, scale, draw,
                                      patient ? settings.most_proposals : kMostProposals, inside);
      report.accepted += inside ? 1 : 0;
      if (inside || patient) return;
      prepare_chain(sum);
      if (report.method == GibbsMethod::truncated_gaussian) prepare_chain_on_kinks(sum);
      return sample(source, sum);
    }
    case GibbsMethod::gaussian:
      source.fill(random::Variate::gaussian, view(draw));
      factor.matrixU().solveInPlace(draw);
      draw = at + scale * draw;
      ++report.proposals;
      ++report.accepted;
      return;
    case GibbsMethod::line: {
      double low = 0.0;
      double high = 0.0;
      body.chord(view(at), view(slope), low, high);
      line.reset();
      draw = at + line.sample(source, sum, at, slope, low, high, 0.0, 1.0) * slope;
      report.proposals += line.proposals();
      ++report.accepted;
      return;
    }
    case GibbsMethod::envelope:
      if (sample_envelope(source, sum)) return;
      prepare_chain_on_kinks(sum);
      return sample(source, sum);
    case GibbsMethod::hit_and_run: {
      const std::uint64_t steps = walk.sample(source, sum, metric, draw);
      report.proposals += steps;
      report.accepted += steps;
      return;
    }
    case GibbsMethod::langevin:
      report.proposals += length;
      report.accepted += langevin.sample(source, sum, metric, length, draw);
      return;
    case GibbsMethod::proximal:
      proximal.start(source, sum, draw);
      for (std::uint64_t k = 0; k < length; ++k) {
        report.proposals += proximal.step(source, sum, draw);
        ++report.accepted;
      }
      return;
  }
}

GibbsSampler::GibbsSampler(Body body, GibbsSettings settings)
    : work_(std::make_unique<Work>(std::move(body), settings)) {}
GibbsSampler::~GibbsSampler() = default;
GibbsSampler::GibbsSampler(GibbsSampler&&) noexcept = default;

void GibbsSampler::sample(Source& source, LossSum& sum, std::span<double> u) {
  assert(std::ssize(u) == sum.dimension());
  sample_many(source, sum, u);
}

void GibbsSampler::sample_many(Source& source, LossSum& sum, std::span<double> out) {
  const auto n = static_cast<std::size_t>(sum.dimension());
  assert(out.size() % n == 0);
  work_->prepare(source, sum);
  for (; !out.empty(); out = out.subspan(n)) {
    work_->sample(source, sum);
    std::ranges::copy(view(work_->draw), out.begin());
  }
}

double GibbsSampler::mode(LossSum& sum, std::span<double> u) {
  const bool smooth = sum.has_hessian();
  double residual = smooth ? work_->modes.solve(sum, work_->at) : 1.0;
  if (residual > kSmooth) {
    residual = work_->planes.solve(sum, 0.0, kMostPlanes, work_->below);
    work_->at = work_->below.at;
  }
  std::ranges::copy(view(work_->at), u.begin());
  return residual;
}

const GibbsReport& GibbsSampler::nonprivate_report() const noexcept { return work_->report; }

void GibbsSampler::walk(Source& source, LossSum& sum, std::uint64_t steps, ChainState& state,
                        std::span<double> out) {
  Work& work = *work_;
  if (work.settings.chain == GibbsChain::automatic) {
    throw std::invalid_argument("only a chosen chain can be walked");
  }
  work.prepare(source, sum);
  const auto n = static_cast<std::size_t>(work.body.dimension());
  assert(out.size() % n == 0);
  const GibbsMethod method = work.report.method;
  const bool begun = !state.position.empty();
  if (begun) {
    if (!work.body.contains(state.position, 1e-9)) {
      throw StateError("state holds no point of the domain");
    }
    work.draw = as_vector(std::span<const double>(state.position));
    work.langevin.set_step_size(state.step_size);
  } else if (method == GibbsMethod::langevin) {
    work.langevin.start(source, sum, work.metric, work.draw);
  } else if (method == GibbsMethod::proximal) {
    work.proximal.start(source, sum, work.draw);
  } else {
    work.draw = work.metric.centre;
  }
  for (; !out.empty(); out = out.subspan(n)) {
    if (method == GibbsMethod::langevin) {
      work.report.proposals += steps;
      work.report.accepted += work.langevin.walk(source, sum, work.metric, steps, work.draw);
    } else {
      for (std::uint64_t k = 0; k < steps; ++k) {
        ++work.report.accepted;
        if (method == GibbsMethod::proximal) {
          work.report.proposals += work.proximal.step(source, sum, work.draw);
        } else {
          ++work.report.proposals;
          work.walk.resume(work.metric, work.draw);
          work.walk.step(source, sum, work.metric, work.draw);
        }
      }
    }
    std::ranges::copy(view(work.draw), out.begin());
  }
  state.position.assign(work.draw.begin(), work.draw.end());
  state.step_size = work.langevin.step_size();
}

std::uint64_t GibbsSampler::chosen_length(const Body& body, const GibbsSettings& settings) {
  const GibbsSettings own = require_settings(settings);
  if (own.chain != GibbsChain::proximal) return HitAndRun::steps(body.dimension(), own.tolerance);
  if (body.kind() == Body::Kind::space || !(own.lipschitz > 0.0)) {
    throw std::invalid_argument("the proximal sampler needs a bounded set and Lipschitz losses");
  }
  constexpr double kMost = 1e15;
  return static_cast<std::uint64_t>(
      std::min(proximal_steps(body.dimension(), body.radius(), own.inverse_temperature,
                              own.regularization, own.lipschitz, own.tolerance),
               kMost));
}

double proximal_steps(Index dimension, double radius, double inverse_temperature,
                      double regularization, double lipschitz, double tolerance) {
  return Proximal::steps(dimension, radius, inverse_temperature, regularization, lipschitz,
                         tolerance);
}

}  // namespace dpoco::samplers
