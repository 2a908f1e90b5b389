#include "dpoco/oco/newton_rule.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"

namespace dpoco::oco {
namespace {

constexpr int kGradientSteps = 300;

// Applies the function to the eigenvalues of a symmetric matrix and returns the sum over its
// eigenvectors. Values of 0 cost nothing.
template <class Function>
Eigen::MatrixXd spectral(const Eigenvalues& solved, Function function) {
  const Eigen::MatrixXd& axes = solved.eigenvectors();
  const Index n = axes.rows();
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(n, n);
  for (Index i = 0; i < n; ++i) {
    const double value = function(solved.eigenvalues()[i]);
    if (value == 0.0) continue;
    for (Index j = 0; j < n; ++j) out.col(j) += (value * axes(j, i)) * axes.col(i);
  }
  return out;
}

}  // namespace

NewtonRule::NewtonRule(std::shared_ptr<const domains::Domain> domain, std::uint64_t releases,
                       NewtonSettings settings)
    : DecisionRule(std::move(domain)),
      ball_radius_(euclidean_radius(*domain_)),
      settings_(std::move(settings)),
      center_(dimension()),
      point_(Vector::Zero(dimension())),
      gradients_(Vector::Zero(dimension())),
      metric_(dimension(), dimension()),
      axes_(dimension()) {
  if (!(settings_.curvature_weight > 0.0 && settings_.step_size > 0.0 &&
        settings_.step_share >= 0.0 && settings_.shrinkage >= 0.0)) {
    throw std::invalid_argument("bounds, weights and steps must be positive");
  }
  const auto share = [](double kept) { return kept > 0.0 && kept <= 1.0; };
  if (forgets() ? settings_.deviations.size() != settings_.kept.size() ||
                      !std::all_of(settings_.kept.begin(), settings_.kept.end(), share)
                : settings_.deviations.size() != releases) {
    throw std::invalid_argument("the sum must fit the statistics and their deviations");
  }
  if (forgets()) {
    curvatures_ = damped_ = Vector::Zero(static_cast<Index>(packed_size(point_.size())));
  }
  domain_->center(view(center_));
  metric_ = Eigen::MatrixXd::Identity(dimension(), dimension()) / settings_.step_size;
  axes_.compute(metric_);
}

void NewtonRule::advance(const mechanisms::Released& released, std::span<double> decision) {
  const auto d = decision.size();
  const std::size_t at = std::min<std::size_t>(released.number(), settings_.deviations.size()) - 1;
  const double deviation = settings_.deviations[at];
  const Eigen::Map<const Vector> sum(released.values().data(), dimension());
  const Vector gradient = sum - gradients_;
  gradients_ = sum;
  const std::span<const double> packed = released.values().subspan(d, packed_size(d));
  if (forgets()) {
    const Eigen::Map<const Vector> matrices(packed.data(), damped_.size());
    damped_ = settings_.kept[at] * damped_ + (matrices - curvatures_);
    curvatures_ = matrices;
  }
  grow_metric(forgets() ? view(std::as_const(damped_)) : packed, deviation);
  const Eigen::MatrixXd& axes = axes_.eigenvectors();
  const Vector along = axes.transpose() * gradient;
  const Vector scaled = (along.array() / axes_.eigenvalues().array()).matrix();
  move_into_domain(point_ - axes * scaled);
  show(deviation, decision);
}

// Only the part of the released matrix that exceeds the noise counts. The metric never decreases
// unless curvatures are forgotten.
void NewtonRule::grow_metric(std::span<const double> matrix, double deviation) {
  const Index n = dimension();
  Eigen::MatrixXd found(n, n);
  unpack(matrix, found);
  found /= settings_.curvature_weight;
  const double edge =
      std::sqrt(2.0 * static_cast<double>(n)) * deviation / settings_.curvature_weight;
  Eigenvalues solved(n);
  if (solved.compute(found).info() != Eigen::Success) return;
  const double share = settings_.step_share;
  Eigen::MatrixXd wanted =
      spectral(solved, [=](double x) { return share * std::max(x - edge, 0.0); });
  wanted.diagonal().array() += 1.0 / settings_.step_size;
  if (forgets()) {
    metric_ = wanted;
    axes_.compute(metric_);
    return;
  }
  wanted -= metric_;
  if (solved.compute(wanted).info() != Eigen::Success) return;
  if (!(solved.eigenvalues()[n - 1] > 0.0)) return;
  metric_ += spectral(solved, [](double x) { return std::max(x, 0.0); });
  axes_.compute(metric_);
}

void NewtonRule::move_into_domain(const Vector& target) {
  if (ball_radius_ > 0.0) {
    const Vector& p = axes_.eigenvalues();
    const Vector pull = (axes_.eigenvectors().transpose() * target).cwiseProduct(p);
    Vector x(dimension());
    minimize_on_ball(p, pull, ball_radius_, x);
    point_ = axes_.eigenvectors() * x;
  } else {
    project_onto_domain(target);
  }
  if (!point_.allFinite()) point_.setZero();
}

// Nesterov's method for strongly convex functions, in the metric. Every iterate is projected onto
// the domain.
void NewtonRule::project_onto_domain(const Vector& target) {
  const Index n = dimension();
  const auto inside = [&](const Vector& x) {
    const Vector from = center_ + x;
    Vector out(n);
    domain_->project(view(from), view(out));
    return Vector(out - center_);
  };
  point_ = inside(target);
  if (domain_->contains(view(Vector(center_ + target)), 0.0)) return;
  const double largest = axes_.eigenvalues()[n - 1];
  const double share = std::sqrt(axes_.eigenvalues()[0] / largest);
  const double weight = (1.0 - share) / (1.0 + share);
  Vector at = point_;
  for (int step = 0; step < kGradientSteps; ++step) {
    const Vector slope = metric_ * (at - target);
    const Vector next = inside(at - slope / largest);
    at = next + weight * (next - point_);
    point_ = next;
  }
}

// Shrinks the point by the size of the steps that noise alone would cause (James and Stein).
void NewtonRule::show(double deviation, std::span<double> decision) const {
  double moved = 0.0;
  for (const double p : axes_.eigenvalues()) moved += (deviation / p) * (deviation / p);
  const double size = point_.squaredNorm();
  const double kept = size > 0.0 ? std::max(0.0, 1.0 - settings_.shrinkage * (moved / size)) : 0.0;
  const Vector target = center_ + kept * point_;
  domain_->project(view(target), decision);
}

void NewtonRule::write(Archive& archive) const {
  archive.reals(point_, gradients_, metric_);
  if (forgets()) archive.reals(curvatures_, damped_);
}

void NewtonRule::read(ArchiveReader& archive) {
  archive.reals(point_, gradients_, metric_);
  if (forgets()) archive.reals(curvatures_, damped_);
}

void NewtonRule::check(std::span<const double> decision) {
  const bool whole = metric_.allFinite() && gradients_.allFinite() && point_.allFinite() &&
                     curvatures_.allFinite() && damped_.allFinite();
  if (!whole || axes_.compute(metric_).info() != Eigen::Success ||
      !(axes_.eigenvalues()[0] > 0.0)) {
    throw StateError("state holds no metric");
  }
  DecisionRule::check(decision);
}

}  // namespace dpoco::oco
