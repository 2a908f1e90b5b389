#include "dpoco/domains/vertex_set.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// The point of smallest length in the convex hull of the rows (Wolfe, "Finding the nearest point in
// a polytope", 1976): `corral` holds affinely independent rows around it, `weights` the point.
class NearestPoint {
 public:
  explicit NearestPoint(RowMatrix points) : points_(std::move(points)) {
    const Vector lengths = points_.rowwise().norm();
    largest_ = lengths.maxCoeff();
    Index first = 0;
    lengths.minCoeff(&first);
    corral_.push_back(first);
    weights_ = Vector::Ones(1);
    update();
  }

  // The weights of all rows.
  Vector find() {
    const Index most = 50 * (points_.rows() + points_.cols()) + 100;
    for (Index step = 0; step < most; ++step) {
      const double length = point_.norm();
      // What rounding leaves of a length 0, and of a slope 0.
      const double rounding = 4.0 * kEpsilon * largest_;
      if (length <= rounding) break;
      Index best = 0;
      const double least = (points_ * point_).minCoeff(&best);
      if (length * length - least <= rounding * length) break;
      if (std::find(corral_.begin(), corral_.end(), best) != corral_.end()) break;
      const std::vector<Index> corral = corral_;
      const Vector weights = weights_;
      corral_.push_back(best);
      weights_.conservativeResize(weights_.size() + 1);
      weights_[weights_.size() - 1] = 0.0;
      shrink();
      if (!(point_.norm() < length)) {  // rounding has the last word
        corral_ = corral;
        weights_ = weights;
        break;
      }
    }
    Vector all = Vector::Zero(points_.rows());
    for (std::size_t i = 0; i < corral_.size(); ++i) {
      all[corral_[i]] = weights_[static_cast<Index>(i)];
    }
    return all;
  }

 private:
  void update() {
    point_.setZero(points_.cols());
    for (std::size_t i = 0; i < corral_.size(); ++i) {
      point_ += weights_[static_cast<Index>(i)] * points_.row(corral_[i]).transpose();
    }
  }

  // Weights, of sum 1 and any sign, of the point of smallest length in the corral's affine hull.
  Vector affine_weights() const {
    const auto count = static_cast<Index>(corral_.size());
    Vector result = Vector::Ones(count);
    if (count == 1) return result;
    const Vector origin = points_.row(corral_[0]).transpose();
    Eigen::MatrixXd edges(points_.cols(), count - 1);
    for (Index i = 1; i < count; ++i) {
      edges.col(i - 1) = points_.row(corral_[static_cast<std::size_t>(i)]).transpose() - origin;
    }
    result.tail(count - 1) = edges.colPivHouseholderQr().solve(-origin);
    result[0] = 1.0 - result.tail(count - 1).sum();
    return result;
  }

  // Moves to the affine minimum, dropping rows whose weights would turn negative on the way.
  void shrink() {
    while (true) {
      const Vector target = affine_weights();
      if (target.minCoeff() > 0.0) {
        weights_ = target;
        break;
      }
      double reach = 1.0;
      Index leaving = 0;
      for (Index i = 0; i < target.size(); ++i) {
        const double drop = weights_[i] - target[i];
        if (target[i] <= 0.0 && weights_[i] <= reach * drop) {
          reach = drop > 0.0 ? weights_[i] / drop : 0.0;
          leaving = i;
        }
      }
      weights_ += reach * (target - weights_);
      weights_[leaving] = 0.0;
      std::vector<Index> kept;
      Vector left(weights_.size());
      for (Index i = 0; i < weights_.size(); ++i) {
        if (i == leaving || !(weights_[i] > 0.0)) continue;
        left[static_cast<Index>(kept.size())] = weights_[i];
        kept.push_back(corral_[static_cast<std::size_t>(i)]);
      }
      corral_ = std::move(kept);
      weights_ = left.head(static_cast<Index>(corral_.size()));
      weights_ /= weights_.sum();
    }
    update();
  }

  RowMatrix points_;
  std::vector<Index> corral_;
  Vector weights_;
  Vector point_;
  double largest_ = 0.0;
};

}  // namespace

VertexSet::VertexSet(RowMatrix vertices) : Domain(vertices.cols()), vertices_(std::move(vertices)) {
  if (vertices_.rows() < 1 || !vertices_.allFinite()) {
    throw std::invalid_argument("vertices must be finite, at least one");
  }
  size_ = vertices_.cwiseAbs().maxCoeff();
  center_ = vertices_.colwise().mean().transpose();
  // The mean of equal points may be a rounding away from them.
  const bool one_point = (vertices_.rowwise() - vertices_.row(0)).cwiseAbs().maxCoeff() == 0.0;
  if (one_point) center_ = vertices_.row(0).transpose();
}

void VertexSet::scores(const double* g, double* out) const noexcept {
  const auto d = static_cast<std::size_t>(dimension());
  const simd::Kernels& k = simd::kernels();
  for (Index i = 0; i < count(); ++i) out[i] = k.dot(g, vertex(i), d);
}

void VertexSet::minimize_linear(const double* g, double* v) const noexcept {
  const auto d = static_cast<std::size_t>(dimension());
  const simd::Kernels& k = simd::kernels();
  double least = std::numeric_limits<double>::infinity();
  Index best = -1;
  for (Index i = 0; i < count(); ++i) {
    const double score = k.dot(g, vertex(i), d);
    if (score < least) {
      least = score;
      best = i;
    }
  }
  const bool flat = best < 0 || std::all_of(g, g + d, [](double x) { return x == 0.0; });
  std::copy_n(flat ? center_.data() : vertex(best), d, v);
}

void VertexSet::project(const double* x, double* out) const {
  const Eigen::Map<const Vector> target(x, dimension());
  if (!target.allFinite()) return center(out);
  // In units of the larger of both sizes, so that no square over- or underflows.
  const double unit = std::max({size_, target.cwiseAbs().maxCoeff(), 1e-150});
  const Vector scaled = target / unit;
  const RowMatrix around = (vertices_ / unit).rowwise() - scaled.transpose();
  // Their combination, not the difference to x: its rounding is that of the set, however far x is.
  Eigen::Map<Vector>(out, dimension()) = vertices_.transpose() * NearestPoint(around).find();
}

bool VertexSet::contains(const double* x, double tolerance) const noexcept {
  const Eigen::Map<const Vector> target(x, dimension());
  if (!target.allFinite()) return false;
  Vector nearest(dimension());
  project(x, nearest.data());
  return (nearest - target).cwiseAbs().maxCoeff() <= tolerance * size_;
}

void VertexSet::center(double* out) const { std::copy_n(center_.data(), dimension(), out); }

}  // namespace dpoco::domains
