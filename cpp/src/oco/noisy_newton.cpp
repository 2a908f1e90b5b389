#include "dpoco/oco/noisy_newton.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/oco/quadratic_leader.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr int kGradientSteps = 300;

// The given functions of the eigenvalues of a symmetric matrix, on its eigenvectors. Those that are
// 0 cost nothing.
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

NoisyNewton::NoisyNewton(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
                         losses::RecordClipper clipper, NoisyNewtonSettings settings,
                         mechanisms::ContinualSum sum)
    : BatchLearner(domain->dimension(), settings.horizon, settings.batches, std::move(sum)),
      domain_(std::move(domain)),
      ball_radius_(euclidean_radius(*domain_)),
      loss_(loss),
      clipper_(std::move(clipper)),
      settings_(std::move(settings)),
      center_(dimension()),
      point_(Vector::Zero(dimension())),
      gradients_(Vector::Zero(dimension())),
      metric_(dimension(), dimension()),
      axes_(dimension()),
      released_(batch_.values()),
      previous_(decision_),
      clipped_(decision_) {
  const bool positive = settings_.scalar_bound > 0.0 && settings_.curvature_bound > 0.0 &&
                        settings_.curvature_weight > 0.0 && settings_.step_size > 0.0 &&
                        settings_.step_share >= 0.0 && settings_.shrinkage >= 0.0;
  if (!positive) throw std::invalid_argument("bounds, weights and steps must be positive");
  if (loss_.kind == losses::GlmKind::squared) {
    throw std::invalid_argument("slopes of the squared loss are not bounded");
  }
  if (!forgets() && batches().single()) throw std::invalid_argument("batches have to grow");
  const auto share = [](double kept) { return kept > 0.0 && kept <= 1.0; };
  if (entries() != decision_.size() + packed_size(decision_.size()) ||
      (forgets() ? settings_.deviations.size() != settings_.kept.size() ||
                       !std::all_of(settings_.kept.begin(), settings_.kept.end(), share)
                 : settings_.deviations.size() != sum_.horizon())) {
    throw std::invalid_argument("the sum must fit the statistics and their deviations");
  }
  if (forgets()) curvatures_ = damped_ = Vector::Zero(sum_.dimension() - dimension());
  domain_->center(view(center_));
  domain_->center(decision_);
  metric_ = Eigen::MatrixXd::Identity(dimension(), dimension()) / settings_.step_size;
  axes_.compute(metric_);
}

// Rows of the triangle hold products of clipped entries.
double NoisyNewton::add_leaf(std::span<const double> at, std::span<const double> features,
                             double label, std::span<double> to, std::span<double> rest,
                             std::span<double> x) const {
  const simd::Kernels& k = simd::kernels();
  const std::size_t d = x.size();
  assert(to.size() == entries() && rest.size() == to.size());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  for (std::size_t i = 0; i < d; ++i) x[i] = multiplier * features[i];
  const double margin = simd::dot(at, x);
  const bool huber = loss_.kind == losses::GlmKind::huber;  // the same for all margins, for it has
  const double curvature = huber ? loss_.weight : loss_.curvature(margin, y);  // to be public
  const double bound = settings_.scalar_bound;
  const double slope = std::clamp(loss_.derivative(margin, y), -bound, bound);
  const double weight =
      settings_.curvature_weight * std::clamp(curvature, 0.0, settings_.curvature_bound);
  std::size_t at_entry = 0;
  const auto add = [&](double factor, std::span<const double> row) {
    k.accumulate(factor, row.data(), row.size(), to.data() + at_entry, rest.data() + at_entry);
    at_entry += row.size();
  };
  add(slope, x);
  for (std::size_t i = 0; i < d; ++i) {
    const double factor = weight * x[i];
    add(factor, x.subspan(i, 1));
    add(kSqrtTwo * factor, x.subspan(i + 1));
  }
  return loss_.value(margin, y);
}

double NoisyNewton::admit(std::optional<double> label, bool) {
  if (!label) throw std::invalid_argument("curvature needs features and labels");
  return add_leaf(decision_, own_row(), *label, batch_.sum(), batch_.rest(), clipped_);
}

void NoisyNewton::leaf(std::span<const double> at, std::span<const double> features, double label,
                       std::span<double> out) const {
  std::vector<double> rest(out.size(), 0.0);
  std::vector<double> scratch(decision_.size());  // several threads may call this
  std::ranges::fill(out, 0.0);
  add_leaf(at, features, label, out, rest, scratch);
}

bool NoisyNewton::close_round() {
  if (!batch_.close_round()) return false;
  const std::uint64_t push = sum_.round();
  const bool seen = push < sum_.horizon();  // else it ends with the last round
  if (seen) sum_.add_one(1.0, batch_.values(), released_);
  batch_.clear();
  if (!seen) return false;
  previous_ = decision_;
  lead(std::min<std::uint64_t>(push, settings_.deviations.size() - 1));
  return previous_ != decision_;  // by value: a projection may turn 0 into -0
}

void NoisyNewton::lead(std::size_t push) {
  const double deviation = settings_.deviations[push];
  const Eigen::Map<const Vector> released(released_.data(), dimension());
  const Vector gradient = released - gradients_;
  gradients_ = released;
  if (forgets()) {
    const Eigen::Map<const Vector> matrices(released_.data() + dimension(), damped_.size());
    damped_ = settings_.kept[push] * damped_ + (matrices - curvatures_);
    curvatures_ = matrices;
  }
  grow_metric(deviation);
  const Eigen::MatrixXd& axes = axes_.eigenvectors();
  const Vector along = axes.transpose() * gradient;
  const Vector scaled = (along.array() / axes_.eigenvalues().array()).matrix();
  move_into_domain(point_ - axes * scaled);
  show(deviation);
}

// Of the released matrix only what the noise alone does not reach counts, and nothing is ever taken
// off the metric unless curvatures are forgotten.
void NoisyNewton::grow_metric(double deviation) {
  const Index n = dimension();
  Eigen::MatrixXd found(n, n);
  unpack(forgets() ? view(damped_) : std::span(released_).subspan(decision_.size()), found);
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

void NoisyNewton::move_into_domain(const Vector& target) {
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

// Nesterov's method for strongly convex functions, in the metric; every point ends in the domain.
void NoisyNewton::project_onto_domain(const Vector& target) {
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

// Shrunk by what the noise alone moves a step, as James and Stein do.
void NoisyNewton::show(double deviation) {
  double moved = 0.0;
  for (const double p : axes_.eigenvalues()) moved += (deviation / p) * (deviation / p);
  const double size = point_.squaredNorm();
  const double kept = size > 0.0 ? std::max(0.0, 1.0 - settings_.shrinkage * (moved / size)) : 0.0;
  const Vector target = center_ + kept * point_;
  domain_->project(view(target), decision_);
}

void NoisyNewton::write_state(Archive& archive) const {
  archive.word(round());
  archive.reals(decision_, point_, gradients_, metric_);
  if (forgets()) archive.reals(curvatures_, damped_);
  batch_.write_sum(archive);
  batch_.write_rest(archive);
  sum_.write(archive);
}

void NoisyNewton::read_state(ArchiveReader& archive) {
  const std::uint64_t round = read_round(archive);
  archive.reals(decision_, point_, gradients_, metric_);
  if (forgets()) archive.reals(curvatures_, damped_);
  batch_.read_sum(archive);
  batch_.read_rest(archive, round);
  sum_.read(archive);
  constexpr double kTolerance = 1e-6;
  if (sum_.round() != std::min(batch_.ended(), sum_.horizon())) {
    throw StateError("state holds an impossible round");
  }
  const bool whole = metric_.allFinite() && gradients_.allFinite() && point_.allFinite() &&
                     curvatures_.allFinite() && damped_.allFinite();
  if (!whole || axes_.compute(metric_).info() != Eigen::Success ||
      !(axes_.eigenvalues()[0] > 0.0)) {
    throw StateError("state holds no metric");
  }
  if (!domain_->contains(decision_, kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::oco
