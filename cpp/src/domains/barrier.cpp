#include "dpoco/domains/barrier.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log(1/(1 - (1 - 1/T)^2)) = log(T^2 / (2T - 1))
double shrunk_quadratic(double horizon) noexcept {
  const double t = std::max(horizon, 3.0);
  return elementary::log(t) - elementary::log(2.0 - 1.0 / t);
}

}  // namespace

Barrier::Barrier(Vector center) : center_(std::move(center)) {
  if (center_.size() < 1 || !center_.allFinite())
    throw std::invalid_argument("center must be finite and not empty");
}

BallBarrier::BallBarrier(Vector center, double p, double radius)
    : Barrier(std::move(center)), p_(p), radius_(radius) {
  if (!(p >= 2.0) || !std::isfinite(p)) throw std::invalid_argument("p must be in [2, inf)");
  if (!(radius > 0.0) || !std::isfinite(radius))
    throw std::invalid_argument("radius must be positive and finite");
}

// ||(x - c)/R||_p^p
double BallBarrier::power_sum(const ConstVectorRef& x) const {
  double sum = 0.0;
  for (Index i = 0; i < dimension(); ++i) {
    const double t = std::fabs(x[i] - center()[i]) / radius_;
    if (!(t < 1.0)) return kInfinity;
    sum += p_ == 2.0 ? t * t : elementary::power(t, p_);
  }
  return sum;
}

double BallBarrier::value(const ConstVectorRef& x) const {
  const double room = 1.0 - power_sum(x);
  return room > 0.0 ? -elementary::log(room) : kInfinity;
}

void BallBarrier::gradient(const ConstVectorRef& x, VectorRef out) const {
  const double room = 1.0 - power_sum(x);
  for (Index i = 0; i < dimension(); ++i) {
    const double t = (x[i] - center()[i]) / radius_;
    const double pull = p_ == 2.0 ? std::fabs(t) : elementary::power(std::fabs(t), p_ - 1.0);
    out[i] = std::copysign(p_ * pull, t) / (radius_ * room);
  }
}

void BallBarrier::hessian(const ConstVectorRef& x, RowMatrixRef out) const {
  Vector slope(dimension());
  gradient(x, slope);
  const double room = 1.0 - power_sum(x);
  out.noalias() = slope * slope.transpose();
  for (Index i = 0; i < dimension(); ++i) {
    const double t = std::fabs(x[i] - center()[i]) / radius_;
    const double bend = p_ == 2.0 ? 1.0 : elementary::power(t, p_ - 2.0);
    out(i, i) += p_ * (p_ - 1.0) * bend / (radius_ * radius_ * room);
  }
}

double BallBarrier::distance(const ConstVectorRef& x, const ConstVectorRef& step) const {
  const Vector from = (x - center()) / radius_;
  const Vector along = step / radius_;
  const double length = norm(view(along), p_);
  if (!(length > 0.0)) return kInfinity;
  if (p_ == 2.0) {
    const double a = along.squaredNorm();
    const double b = from.dot(along);
    const double c = 1.0 - from.squaredNorm();
    const double s = std::sqrt(b * b + a * c);
    // The form of the root that does not cancel.
    return b > 0.0 ? c / (b + s) : (s - b) / a;
  }
  // t -> ||from + t along||_p is convex and below 1 at 0: bisect where it crosses 1.
  double low = 0.0;
  double high = 2.0 / length;
  Vector point(dimension());
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    for (Index j = 0; j < dimension(); ++j) point[j] = from[j] + middle * along[j];
    (norm(view(point), p_) <= 1.0 ? low : high) = middle;
  }
  return low;
}

double BallBarrier::shrunk_supremum(double horizon) const noexcept {
  if (p_ == 2.0) return shrunk_quadratic(horizon);
  const double t = std::max(horizon, 3.0);
  return -elementary::log(1.0 - elementary::power(1.0 - 1.0 / t, p_));
}

BoxBarrier::BoxBarrier(const Vector& lower, const Vector& upper)
    : Barrier(0.5 * lower + 0.5 * upper), half_width_(0.5 * upper - 0.5 * lower) {
  if (!(half_width_.minCoeff() > 0.0) || !half_width_.allFinite())
    throw std::invalid_argument("every upper bound must exceed its lower bound");
}

double BoxBarrier::value(const ConstVectorRef& x) const {
  double sum = 0.0;
  for (Index i = 0; i < dimension(); ++i) {
    const double t = (x[i] - center()[i]) / half_width_[i];
    const double room = (1.0 - t) * (1.0 + t);
    if (!(room > 0.0)) return kInfinity;
    sum -= elementary::log(room);
  }
  return sum;
}

void BoxBarrier::gradient(const ConstVectorRef& x, VectorRef out) const {
  for (Index i = 0; i < dimension(); ++i) {
    const double t = (x[i] - center()[i]) / half_width_[i];
    out[i] = 2.0 * t / (half_width_[i] * (1.0 - t) * (1.0 + t));
  }
}

void BoxBarrier::hessian(const ConstVectorRef& x, RowMatrixRef out) const {
  out.setZero();
  for (Index i = 0; i < dimension(); ++i) {
    const double t = (x[i] - center()[i]) / half_width_[i];
    const double room = half_width_[i] * (1.0 - t) * (1.0 + t);
    out(i, i) = 2.0 * (1.0 + t * t) / (room * room);
  }
}

double BoxBarrier::distance(const ConstVectorRef& x, const ConstVectorRef& step) const {
  double least = kInfinity;
  for (Index i = 0; i < dimension(); ++i) {
    if (step[i] == 0.0) continue;
    const double wall = center()[i] + (step[i] > 0.0 ? half_width_[i] : -half_width_[i]);
    least = std::min(least, (wall - x[i]) / step[i]);
  }
  return std::max(least, 0.0);
}

double BoxBarrier::shrunk_supremum(double horizon) const noexcept {
  return static_cast<double>(dimension()) * shrunk_quadratic(horizon);
}

PolytopeBarrier::PolytopeBarrier(RowMatrix rows, Vector bounds, Vector center)
    : Barrier(std::move(center)), rows_(std::move(rows)), bounds_(std::move(bounds)) {
  if (rows_.cols() != dimension() || rows_.rows() != bounds_.size() || rows_.rows() < 1)
    throw std::invalid_argument("rows, bounds and center have incompatible shapes");
  if (!rows_.allFinite() || !bounds_.allFinite())
    throw std::invalid_argument("rows and bounds must be finite");
  slack_at_center_ = bounds_ - rows_ * this->center();
  if (!(slack_at_center_.minCoeff() > 0.0))
    throw std::invalid_argument("center must be an interior point");
  const Vector pull = slack_at_center_.cwiseInverse();
  const double size = rows_.rowwise().norm().dot(pull);
  // Only at the analytic centre is the barrier nonnegative.
  if (!((rows_.transpose() * pull).norm() <= 1e-6 * size))
    throw std::invalid_argument("center must be the analytic centre");
}

PolytopeBarrier PolytopeBarrier::simplex(Index dimension, double scale) {
  if (dimension < 1 || !(scale > 0.0) || !std::isfinite(scale))
    throw std::invalid_argument("dimension must be at least 1 and scale positive and finite");
  RowMatrix rows = RowMatrix::Zero(dimension + 1, dimension);
  rows.topRows(dimension).diagonal().setConstant(-1.0);
  rows.row(dimension).setOnes();
  Vector bounds = Vector::Zero(dimension + 1);
  bounds[dimension] = scale;
  return {std::move(rows), std::move(bounds),
          Vector::Constant(dimension, scale / static_cast<double>(dimension + 1))};
}

double PolytopeBarrier::value(const ConstVectorRef& x) const {
  const Vector slack = bounds_ - rows_ * x;
  double sum = 0.0;
  for (Index j = 0; j < slack.size(); ++j) {
    const double ratio = slack[j] / slack_at_center_[j];
    if (!(ratio > 0.0)) return kInfinity;
    sum -= elementary::log(ratio);
  }
  return sum;
}

void PolytopeBarrier::gradient(const ConstVectorRef& x, VectorRef out) const {
  out.noalias() = rows_.transpose() * (bounds_ - rows_ * x).cwiseInverse();
}

void PolytopeBarrier::hessian(const ConstVectorRef& x, RowMatrixRef out) const {
  const auto axpy = simd::kernels().axpy;
  const Index n = dimension();
  const Vector pull = (bounds_ - rows_ * x).cwiseInverse();
  out.setZero();
  for (Index k = 0; k < rows_.rows(); ++k) {
    const double* row = rows_.data() + k * n;
    for (Index i = 0; i < n; ++i) {
      const double factor = pull[k] * (pull[k] * row[i]);
      axpy(factor, row + i, static_cast<std::size_t>(n - i), &out(i, i));
    }
  }
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) out(i, j) = out(j, i);
  }
}

double PolytopeBarrier::distance(const ConstVectorRef& x, const ConstVectorRef& step) const {
  const Vector slack = bounds_ - rows_ * x;
  const Vector rate = rows_ * step;
  double least = kInfinity;
  for (Index j = 0; j < slack.size(); ++j)
    if (rate[j] > 0.0) least = std::min(least, slack[j] / rate[j]);
  return std::max(least, 0.0);
}

// Each slack keeps at least 1/T of its value at the centre.
double PolytopeBarrier::shrunk_supremum(double horizon) const noexcept {
  return parameter() * elementary::log(std::max(horizon, 3.0));
}

}  // namespace dpoco::domains
