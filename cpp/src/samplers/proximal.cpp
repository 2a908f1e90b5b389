#include "proximal.hpp"

#include <cmath>
#include <limits>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

using losses::LossSum;
using random::Source;

namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

double step_variance(Index dimension, double radius, double beta, double lam, double lipschitz) {
  const auto n = static_cast<double>(dimension);
  return 1.0 / (16.0 * n * beta * beta * lipschitz * (lipschitz + lam * radius));
}

}  // namespace

Proximal::Proximal(const domains::Body& body, double inverse_temperature, double regularization,
                   double lipschitz)
    : flat_(body),
      beta_(inverse_temperature),
      lam_(regularization),
      variance_(step_variance(body.dimension(), body.radius(), inverse_temperature, regularization,
                              lipschitz)),
      slope_(body.dimension()),
      mean_(body.dimension()),
      next_(body.dimension()) {}

double Proximal::steps(Index dimension, double radius, double inverse_temperature,
                       double regularization, double lipschitz, double tolerance) {
  const auto n = static_cast<double>(dimension);
  const double a = lipschitz * std::sqrt(inverse_temperature / regularization);
  const double eta =
      step_variance(dimension, radius, inverse_temperature, regularization, lipschitz);
  const double nats = elementary::log(a * a + a * std::sqrt(n)) - 2.0 * elementary::log(tolerance);
  const double each = 2.0 * elementary::log1p(inverse_temperature * regularization * eta);
  return std::ceil(std::fmax(nats, 0.0) / each) + 1.0;
}

void Proximal::start(Source& source, LossSum& sum, Vector& out) {
  next_.setZero();
  sum.gradient(view(next_), view(slope_));
  mean_ = -slope_ / lam_;
  bool inside = false;
  flat_.sample(source, mean_, 1.0 / std::sqrt(beta_ * lam_), out, kForever, inside);
}

std::uint64_t Proximal::step(Source& source, LossSum& sum, Vector& out) {
  source.fill(random::Variate::gaussian, view(mean_));
  sum.gradient(view(out), view(slope_));
  const double height = sum.value(view(out));
  const double precision = beta_ * lam_ + 1.0 / variance_;
  mean_ = ((out + std::sqrt(variance_) * mean_) / variance_ - beta_ * slope_) / precision;
  std::uint64_t proposals = 0;
  for (;;) {
    bool inside = false;
    proposals += flat_.sample(source, mean_, 1.0 / std::sqrt(precision), next_, kForever, inside);
    const double excess = beta_ * (sum.value(view(next_)) - height - slope_.dot(next_ - out));
    // P(exponential >= x) = exp(-x). A value that is not a number ends the loop.
    if (!(source.exponential() < excess)) break;
  }
  out.swap(next_);
  return proposals;
}

}  // namespace dpoco::samplers
