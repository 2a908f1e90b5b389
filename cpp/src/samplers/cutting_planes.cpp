#include "cutting_planes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dpoco::samplers {

using losses::LossSum;

namespace {

// Corrections of the weights per plane. They do not evaluate F.
constexpr int kCorrections = 200;
// Halvings of a width that starts at the largest possible.
constexpr int kHalvings = 100;

}  // namespace

CuttingPlanes::CuttingPlanes(domains::Body body, double regularization)
    : body_(std::move(body)),
      lam_(regularization),
      slopes_(body_.dimension(), kPlanes),
      offsets_(kPlanes),
      weights_(kPlanes),
      slope_(body_.dimension()),
      at_(body_.dimension()),
      heights_(kPlanes),
      scratch_(body_.dimension()) {}

// Computes the combination of planes, the minimiser at_ of it plus lam ||u||^2 / 2, and the heights
// of the planes there.
void CuttingPlanes::move() {
  slope_.noalias() = slopes_.leftCols(count_) * weights_.head(count_);
  scratch_ = slope_ / -lam_;
  body_.project(view(scratch_), view(at_));
  heights_.head(count_).noalias() = slopes_.leftCols(count_).transpose() * at_;
  heights_.head(count_) += offsets_.head(count_);
}

// Returns the place for the next plane. If all are taken, merges the two planes of the smallest
// weights.
Index CuttingPlanes::free_place() {
  if (count_ < kPlanes) return count_++;
  Index least = 0;
  Index next = 1;
  if (weights_[next] < weights_[least]) std::swap(least, next);
  for (Index j = 2; j < kPlanes; ++j) {
    if (weights_[j] < weights_[least]) {
      next = std::exchange(least, j);
    } else if (weights_[j] < weights_[next]) {
      next = j;
    }
  }
  const double both = weights_[least] + weights_[next];
  if (both > 0.0) {
    const double share = weights_[least] / both;
    slopes_.col(next) += share * (slopes_.col(least) - slopes_.col(next));
    offsets_[next] += share * (offsets_[least] - offsets_[next]);
    weights_[next] = both;
  }
  return least;
}

// Moves weight from one plane to another. The amount is the best without walls: the second
// derivative of the dual is at least -||difference of the slopes||^2 / lam.
void CuttingPlanes::shift(Index from, Index to) {
  scratch_ = slopes_.col(to) - slopes_.col(from);
  const double square = scratch_.squaredNorm();
  const double rise = lam_ * (heights_[to] - heights_[from]);
  const double moved =
      rise < weights_[from] * square ? rise / square : weights_[from];  // also for equal slopes
  weights_[from] -= moved;
  weights_[to] += moved;
  move();
}

// Corrects the weights until they are within `enough` of the best.
void CuttingPlanes::weigh(double enough) {
  for (int k = 0; k < kCorrections; ++k) {
    Index high = 0;
    Index low = -1;
    for (Index j = 0; j < count_; ++j) {
      if (heights_[j] > heights_[high]) high = j;
      if (weights_[j] > 0.0 && (low < 0 || heights_[j] < heights_[low])) low = j;
    }
    if (low < 0 || !(heights_[high] - heights_[low] > enough)) return;
    shift(low, high);
  }
}

double CuttingPlanes::solve(LossSum& sum, double enough, std::uint64_t most, Minorant& out) {
  double best = std::numeric_limits<double>::infinity();
  double gap = 0.0;
  double height = 0.0;
  count_ = 0;
  at_.setZero();
  slope_.setZero();
  for (std::uint64_t k = 0; k <= most; ++k) {
    const double value = sum.value(view(at_));
    if (k > 0) {
      gap = value - height;
      if (gap < best) {
        best = gap;
        out.at = at_;
        out.slope = slope_;
        out.height = height;
      }
      if (!(gap > enough) || k == most) break;
    }
    const Index place = free_place();
    sum.gradient(view(at_), view(scratch_));
    slopes_.col(place) = scratch_;
    offsets_[place] = value - scratch_.dot(at_);
    // The Frank-Wolfe step: from all planes to the new one.
    const double square = (scratch_ - slope_).squaredNorm();
    const double step = k > 0 && lam_ * gap < square ? lam_ * gap / square : 1.0;
    weights_[place] = 0.0;
    weights_.head(count_) *= 1.0 - step;
    weights_[place] = step;
    weights_.head(count_) /= weights_.head(count_).sum();
    move();
    weigh(0.1 * enough);
    height = weights_.head(count_).dot(heights_.head(count_));
  }
  return best;
}

SecantCurvature::SecantCurvature(domains::Body body, double inverse_temperature,
                                 double regularization)
    : body_(std::move(body)),
      beta_(inverse_temperature),
      lam_(regularization),
      eigen_(body_.dimension()),
      direction_(body_.dimension()),
      trial_(body_.dimension()),
      ahead_(body_.dimension()),
      behind_(body_.dimension()) {}

double SecantCurvature::value(LossSum& sum, const Vector& u, double t, const Vector& direction) {
  trial_ = u + t * direction;
  return sum.value(view(trial_)) + 0.5 * lam_ * trial_.squaredNorm();
}

double SecantCurvature::width(LossSum& sum, const Vector& u, const Vector& direction,
                              double& bend) {
  double low = 0.0;
  double high = 0.0;
  body_.chord(view(u), view(direction), low, high);
  double t = std::min(1.0 / std::sqrt(beta_ * lam_), 0.99 * std::min(-low, high));
  const double here = value(sum, u, 0.0, direction);
  for (int k = 0;; ++k) {
    const double rise = value(sum, u, t, direction) + value(sum, u, -t, direction) - 2.0 * here;
    if (!(beta_ * rise > 2.0) || k == kHalvings) {
      bend = t > 0.0 && rise > 0.0 ? std::max(rise / (t * t), lam_) : lam_;
      return t;
    }
    t *= 0.5;
  }
}

void SecantCurvature::measure(LossSum& sum, const Vector& u, Matrix& out) {
  const Index n = body_.dimension();
  double bend = 0.0;
  // Measures along the axes first. The differences of subgradients show in which directions to
  // measure.
  out.setZero();
  for (Index i = 0; i < n; ++i) {
    direction_.setZero();
    direction_[i] = 1.0;
    const double t = width(sum, u, direction_, bend);
    if (!(t > 0.0)) continue;
    trial_ = u + t * direction_;
    sum.gradient(view(trial_), view(ahead_));
    trial_ = u - t * direction_;
    sum.gradient(view(trial_), view(behind_));
    out.col(i) = (ahead_ - behind_) / (2.0 * t);
  }
  out = 0.5 * (out + out.transpose()).eval();
  eigen_.compute(out);
  const Matrix directions = eigen_.eigenvectors();
  out.setZero();
  for (Index i = 0; i < n; ++i) {
    direction_ = directions.col(i);
    width(sum, u, direction_, bend);
    out.noalias() += (bend - lam_) * direction_ * direction_.transpose();
  }
}

}  // namespace dpoco::samplers
