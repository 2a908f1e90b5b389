#include "hit_and_run.hpp"

#include <cmath>
#include <utility>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

HitAndRun::HitAndRun(domains::Body body, double inverse_temperature, double regularization,
                     double tolerance)
    : body_(std::move(body)),
      line_(inverse_temperature, regularization),
      steps_(steps(body_.dimension(), tolerance)),
      direction_(body_.dimension()),
      step_(body_.dimension()),
      position_(body_.dimension()) {}

std::uint64_t HitAndRun::steps(Index dimension, double tolerance) {
  const auto n = static_cast<double>(dimension);
  const double steps = 2.0 * n * (elementary::log(n) - 2.0 * elementary::log(tolerance));
  return static_cast<std::uint64_t>(std::ceil(steps));
}

void HitAndRun::resume(const Whitening& metric, const Vector& out) {
  position_ = metric.factor.matrixU() * (out - metric.centre);
}

void HitAndRun::step(random::Source& source, losses::LossSum& sum, const Whitening& metric,
                     Vector& out) {
  source.fill(random::Variate::gaussian, view(direction_));
  step_ = direction_;
  metric.factor.matrixU().solveInPlace(step_);
  double low = 0.0;
  double high = 0.0;
  body_.chord(view(out), view(step_), low, high);
  // If the law were the Gaussian of the metric, these would be its mean and deviation on the line.
  const double square = direction_.squaredNorm();
  const double guess = -direction_.dot(position_) / square;
  const double t = line_.sample(source, sum, out, step_, low, high, guess, 1.0 / std::sqrt(square));
  out += t * step_;
  position_ += t * direction_;
}

std::uint64_t HitAndRun::sample(random::Source& source, losses::LossSum& sum,
                                const Whitening& metric, Vector& out) {
  out = metric.centre;
  position_.setZero();
  for (std::uint64_t k = 0; k < steps_; ++k) step(source, sum, metric, out);
  return steps_;
}

}  // namespace dpoco::samplers
