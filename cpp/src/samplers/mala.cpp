#include "mala.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

using losses::LossSum;

namespace {

constexpr double kAcceptance = 0.574;
constexpr int kWarmUp = 300;  // the same for all data

}  // namespace

Langevin::Langevin(domains::Body body, double inverse_temperature, double regularization)
    : body_(std::move(body)),
      beta_(inverse_temperature),
      lam_(regularization),
      least_(body_.dimension(), body_.dimension()),
      eigen_(body_.dimension()),
      force_(body_.dimension()),
      next_force_(body_.dimension()),
      noise_(body_.dimension()),
      move_(body_.dimension()),
      next_(body_.dimension()) {}

double Langevin::steps(Index dimension, double tolerance, double condition) {
  const double root = elementary::power(static_cast<double>(dimension), 1.0 / 3.0);
  return std::ceil(-20.0 * root * condition * elementary::log(tolerance));
}

double Langevin::condition(LossSum& sum, const Whitening& metric) {
  least_.setZero();
  sum.add_least_hessian(view(least_));
  least_.diagonal().array() += lam_;
  least_ *= beta_;
  metric.factor.matrixL().solveInPlace(least_);
  least_.transposeInPlace();
  metric.factor.matrixL().solveInPlace(least_);
  eigen_.compute(least_, Eigen::EigenvaluesOnly);
  const double least = eigen_.eigenvalues()[0];
  return least > 0.0 ? std::max(1.0 / least, 1.0) : std::numeric_limits<double>::infinity();
}

double Langevin::energy(LossSum& sum, const Vector& u) const {
  return beta_ * (sum.value(view(u)) + 0.5 * lam_ * u.squaredNorm());
}

void Langevin::force(LossSum& sum, const Whitening& metric, const Vector& u, Vector& out) {
  sum.gradient(view(u), view(out));
  out = beta_ * (out + lam_ * u);
  metric.factor.matrixL().solveInPlace(out);
}

// One step of the chain; returns its acceptance probability.
double Langevin::propose(random::Source& source, LossSum& sum, const Whitening& metric, double size,
                         Vector& u, bool& accepted) {
  source.fill(random::Variate::gaussian, view(noise_));
  const double drift = 0.5 * size * size;
  move_ = size * noise_ - drift * force_;
  metric.factor.matrixU().solveInPlace(move_);
  next_ = u + move_;
  const double threshold = source.exponential();
  accepted = false;
  if (!body_.contains(view(next_), 0.0)) return 0.0;
  const double reached = energy(sum, next_);
  force(sum, metric, next_, next_force_);
  // The noise of the reverse step is -(noise - drift/size (force + next force)).
  move_ = noise_ - (drift / size) * (force_ + next_force_);
  const double log_ratio = energy_ - reached + 0.5 * (noise_.squaredNorm() - move_.squaredNorm());
  accepted = threshold >= -log_ratio;
  if (accepted) {
    u = next_;
    energy_ = reached;
    force_.swap(next_force_);
  }
  return log_ratio < 0.0 ? elementary::exp(log_ratio) : (log_ratio >= 0.0 ? 1.0 : 0.0);
}

void Langevin::start(random::Source& source, LossSum& sum, const Whitening& metric, Vector& out) {
  const auto n = static_cast<double>(body_.dimension());
  // Draws from the Gaussian of the metric, and moves a point outside the body towards the centre.
  source.fill(random::Variate::gaussian, view(move_));
  metric.factor.matrixU().solveInPlace(move_);
  double low = 0.0;
  double high = 0.0;
  body_.chord(view(metric.centre), view(move_), low, high);
  out = metric.centre + std::min(1.0, 0.5 * high) * move_;
  energy_ = energy(sum, out);
  force(sum, metric, out, force_);
  size_ = 1.0 / std::sqrt(elementary::power(n, 1.0 / 3.0));
  bool taken = false;
  for (int k = 1; k <= kWarmUp; ++k) {
    const double acceptance = propose(source, sum, metric, size_, out, taken);
    size_ *= elementary::exp((acceptance - kAcceptance) / std::sqrt(static_cast<double>(k)));
  }
}

std::uint64_t Langevin::walk(random::Source& source, LossSum& sum, const Whitening& metric,
                             std::uint64_t count, Vector& out) {
  energy_ = energy(sum, out);
  force(sum, metric, out, force_);
  std::uint64_t accepted = 0;
  bool taken = false;
  for (std::uint64_t k = 0; k < count; ++k) {
    propose(source, sum, metric, size_, out, taken);
    accepted += taken ? 1 : 0;
  }
  return accepted;
}

std::uint64_t Langevin::sample(random::Source& source, LossSum& sum, const Whitening& metric,
                               std::uint64_t count, Vector& out) {
  start(source, sum, metric, out);
  return walk(source, sum, metric, count, out);
}

}  // namespace dpoco::samplers
