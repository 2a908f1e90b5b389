#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::losses {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Leaves room for rounding, so that a loss stays within its bounds.
constexpr double kReserve = 1.0 - 1e-12;

// F(u) = u'Au/2 + g'u + k, all that is needed of a quadratic loss.
struct Quadratic {
  explicit Quadratic(Index n) : matrix(RowMatrix::Zero(n, n)), slope(Vector::Zero(n)) {}

  double value(std::span<const double> u) const {
    const auto x = as_vector(u);
    return 0.5 * x.dot(matrix * x) + slope.dot(x) + constant;
  }
  void gradient(std::span<const double> u, std::span<double> out) const {
    as_vector(out).noalias() = matrix * as_vector(u);
    as_vector(out) += slope;
  }

  RowMatrix matrix;
  Vector slope;
  double constant = 0.0;
};

// Base of the two kinds of quadratic losses.
class QuadraticSum : public LossSum {
 public:
  bool empty() const noexcept override {
    return sum_.constant == 0.0 && sum_.slope.isZero(0.0) && sum_.matrix.isZero(0.0);
  }

  double value(std::span<const double> u) override { return sum_.value(u); }
  void gradient(std::span<const double> u, std::span<double> out) override {
    sum_.gradient(u, out);
  }
  void hessian(std::span<const double>, std::span<double> out) override {
    std::ranges::copy(view(sum_.matrix), out.begin());
  }
  void add_least_hessian(std::span<double> out) const override {
    as_matrix(out, dimension()) += sum_.matrix;
  }

  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    Vector at(dimension());
    sum_.gradient(u, view(at));
    const auto along = as_vector(step);
    line_[0] = sum_.value(u);
    line_[1] = at.dot(along);
    line_[2] = along.dot(sum_.matrix * along);
  }
  double line_value(double t) override { return line_[0] + t * (line_[1] + 0.5 * t * line_[2]); }
  double line_slope(double t) override { return line_[1] + t * line_[2]; }

  void write(Archive& archive) const override {
    archive.reals(sum_.matrix, sum_.slope);
    archive.real(sum_.constant);
    archive.reals(rest_.matrix, rest_.slope);
    archive.real(rest_.constant);
  }
  void read(ArchiveReader& archive) override {
    for (Quadratic* part : {&sum_, &rest_}) {
      archive.reals(part->matrix, part->slope);
      part->constant = archive.real();
    }
    if (!are_rests(view(sum_.matrix), view(rest_.matrix)) ||
        !are_rests(view(sum_.slope), view(rest_.slope)) ||
        !are_rests({&sum_.constant, 1}, {&rest_.constant, 1}) ||
        sum_.matrix != sum_.matrix.transpose().eval() ||
        rest_.matrix != rest_.matrix.transpose().eval() ||
        !(sum_.matrix.diagonal().minCoeff() >= 0)) {
      throw StateError("state holds no sum of quadratic losses");
    }
  }

 protected:
  // rank 0 stands for the full dimension.
  QuadraticSum(const domains::Body& body, Index rank, LossBounds bounds)
      : LossSum(Kind::quadratic, body, rank == 0 ? body.dimension() : rank, bounds),
        sum_(dimension()),
        rest_(sum_) {}

  void add_to_matrix(Index i, Index j, double x) {
    add_compensated(x, sum_.matrix(i, j), rest_.matrix(i, j));
  }
  void add_to_slope(Index i, double x) { add_compensated(x, sum_.slope[i], rest_.slope[i]); }
  void add_to_constant(double x) { add_compensated(x, sum_.constant, rest_.constant); }

 private:
  Quadratic sum_;
  Quadratic rest_;  // compensation of the sum's rounding errors, entry by entry
  double line_[3] = {0.0, 0.0, 0.0};
};

// weight (<v, x> - y)^2, rank one.
class SquaredSum final : public QuadraticSum {
 public:
  SquaredSum(const domains::Body& body, GlmLoss loss, RecordClipper clipper)
      : QuadraticSum(body, 1, glm_bounds(body, loss, clipper)),
        loss_(loss),
        clipper_(std::move(clipper)),
        row_(static_cast<std::size_t>(body.ambient()), 0.0),
        direction_(Vector::Zero(dimension())) {}

  void stage_record(std::span<const double> features, double label) override {
    assert(features.size() == row_.size());
    std::ranges::copy(features, row_.begin());
    const double multiplier = GlmLoss::label_multiplier(label) * clipper_.multiplier(row_);
    for (double& each : row_) each = multiplier == 0.0 ? 0.0 : multiplier * each;
    offset_ = body().pull_back(row_, view(direction_));
    // A dropped record has the zero loss: its vector, offset and label are all 0.
    label_ = multiplier == 0.0 ? 0.0 : loss_.clip_label(label);
  }

  double staged_value(std::span<const double> u) const override {
    return loss_.value(margin(u), label_);
  }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    as_vector(out) = loss_.derivative(margin(u), label_) * direction_;
  }
  double staged_curvature(std::span<const double>) const override { return 2.0 * loss_.weight; }
  std::span<const double> staged_direction() const override { return view(direction_); }
  void staged_hessian(std::span<const double>, std::span<double> out) const override {
    as_matrix(out, dimension()).noalias() =
        (2.0 * loss_.weight) * direction_ * direction_.transpose();
  }
  double staged_minimum() override {
    const double low = offset_ + body().support_low(view(direction_));
    const Vector opposite = -direction_;
    const double high = offset_ - body().support_low(view(opposite));
    if (!(low < label_)) return loss_.value(low, label_);
    return high > label_ ? 0.0 : loss_.value(high, label_);
  }

  void commit() override {
    const double factor = 2.0 * loss_.weight;
    const double residual = offset_ - label_;
    for (Index i = 0; i < dimension(); ++i) {
      for (Index j = 0; j < dimension(); ++j) {
        // With this order of factors the matrix is symmetric to the last bit.
        add_to_matrix(i, j, factor * (direction_[i] * direction_[j]));
      }
      add_to_slope(i, factor * residual * direction_[i]);
    }
    add_to_constant(loss_.weight * residual * residual);
  }

 private:
  double margin(std::span<const double> u) const {
    return offset_ + simd::dot(view(direction_), u);
  }

  GlmLoss loss_;
  RecordClipper clipper_;
  std::vector<double> row_;
  Vector direction_;
  double offset_ = 0.0;
  double label_ = 0.0;
};

// x'Ax/2 - b'x, any rank.
class MatrixSum final : public QuadraticSum {
 public:
  MatrixSum(const domains::Body& body, double lipschitz, double smoothness, double radius)
      // With an infinite radius the slopes have no bound.
      : QuadraticSum(body, 0,
                     {.lipschitz = std::isinf(radius) ? 0.0 : lipschitz, .smoothness = smoothness}),
        lipschitz_(lipschitz),
        smoothness_(smoothness),
        radius_(radius),
        centre_(body.ambient()),
        full_(body.ambient(), body.ambient()),
        solver_(body.ambient()),
        solver_staged_(body.dimension()),
        staged_(dimension()) {
    const Vector zero = Vector::Zero(dimension());
    body.embed(view(zero), view(centre_));
  }

  void stage_matrix(std::span<const double> matrix, std::span<const double> vector) override {
    const Index d = body().ambient();
    const auto given = as_matrix(matrix, d);
    full_.noalias() = 0.5 * given;
    full_ += 0.5 * given.transpose();
    Vector slope = -as_vector(vector);
    const double scale = admissible_scale(slope);
    if (scale == 0.0) {
      full_.setZero();
      slope.setZero();
    } else {
      full_ *= scale;
      slope *= scale;
    }
    // About the centre c: (c + h)'A(c + h)/2 + s'(c + h) = h'Ah/2 + (Ac + s)'h + constant.
    const Vector at_centre = full_ * centre_;
    const Vector gradient = at_centre + slope;
    staged_.constant = 0.5 * centre_.dot(at_centre) + slope.dot(centre_);
    body().pull_back_matrix(view(full_), view(staged_.matrix));
    body().pull_back(view(gradient), view(staged_.slope));
    // The pulled-back matrix must be symmetric to the last bit, as the sum's state promises.
    staged_.matrix = (0.5 * (staged_.matrix + staged_.matrix.transpose())).eval();
    if (!staged_.matrix.allFinite() || !staged_.slope.allFinite() ||
        !std::isfinite(staged_.constant)) {
      staged_ = Quadratic(dimension());
    }
    enforce_bounds();
  }

  double staged_value(std::span<const double> u) const override { return staged_.value(u); }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    staged_.gradient(u, out);
  }
  double staged_curvature(std::span<const double>) const override {
    if (dimension() != 1) {
      throw std::logic_error("the Hessian of a quadratic loss has no single direction");
    }
    return staged_.matrix(0, 0);
  }
  std::span<const double> staged_direction() const override { return {&kUnit, 1}; }
  void staged_hessian(std::span<const double>, std::span<double> out) const override {
    std::ranges::copy(view(staged_.matrix), out.begin());
  }
  // The loss is convex, so it is above its tangent at the centre.
  double staged_minimum() override {
    return staged_.constant + body().support_low(view(staged_.slope));
  }

  void commit() override {
    for (Index i = 0; i < dimension(); ++i) {
      for (Index j = 0; j < dimension(); ++j) add_to_matrix(i, j, staged_.matrix(i, j));
      add_to_slope(i, staged_.slope[i]);
    }
    add_to_constant(staged_.constant);
  }

 private:
  // The factor that brings full_ and slope within the bounds; 0 if there is none.
  double admissible_scale(const Vector& slope) {
    if (!full_.allFinite() || !slope.allFinite()) return 0.0;
    solver_.compute(full_, Eigen::EigenvaluesOnly);
    if (solver_.info() != Eigen::Success) return 0.0;
    const double least = solver_.eigenvalues()[0];
    const double most = solver_.eigenvalues()[full_.rows() - 1];
    if (!(least >= -1e-12 * std::max(most, 0.0))) return 0.0;  // not convex
    double scale = 1.0;
    if (most > smoothness_) scale = kReserve * smoothness_ / most;
    if (std::isfinite(radius_)) {
      const double reach = most * radius_ + (full_ * centre_ + slope).norm();
      if (!std::isfinite(reach)) return 0.0;
      if (scale * reach > lipschitz_) scale = kReserve * lipschitz_ / reach;
    }
    return scale >= std::numeric_limits<double>::min() ? scale : 0.0;
  }

  // Shrinks a staged loss that exceeds the bounds because of rounding.
  void enforce_bounds() {
    double excess = 0.0;
    if (std::isfinite(radius_)) {
      solver_staged_.compute(staged_.matrix, Eigen::EigenvaluesOnly);
      const double most = solver_staged_.eigenvalues()[dimension() - 1];
      excess = (most * radius_ + staged_.slope.norm()) / lipschitz_;
      if (solver_staged_.info() != Eigen::Success) excess = kInfinity;
    }
    if (excess <= 1.0) return;
    const double factor = std::isfinite(excess) ? kReserve / excess : 0.0;
    staged_.matrix *= factor;
    staged_.slope *= factor;
    staged_.constant *= factor;
  }

  static constexpr double kUnit = 1.0;

  double lipschitz_;
  double smoothness_;
  double radius_;
  Vector centre_;
  RowMatrix full_;
  EigenvaluesOfRows solver_;
  EigenvaluesOfRows solver_staged_;
  Quadratic staged_;
};

}  // namespace

std::unique_ptr<LossSum> make_glm_sum(domains::Body body, GlmLoss loss, RecordClipper clipper) {
  if (clipper.dimension() != body.ambient()) {
    throw std::invalid_argument("clipper and domain differ in dimension");
  }
  if (loss.kind == GlmKind::table) {
    throw std::invalid_argument("sums of losses have no bounds for a loss given by a table");
  }
  if (loss.kind == GlmKind::squared) {
    return std::make_unique<SquaredSum>(body, loss, std::move(clipper));
  }
  return make_glm_rows(std::move(body), loss, std::move(clipper));
}

std::unique_ptr<LossSum> make_quadratic_sum(domains::Body body, double lipschitz, double smoothness,
                                            double radius) {
  if (!(lipschitz > 0.0) || !(smoothness > 0.0) || !(radius > 0.0)) {
    throw std::invalid_argument("lipschitz, smoothness and radius must be positive");
  }
  return std::make_unique<MatrixSum>(body, lipschitz, smoothness, radius);
}

}  // namespace dpoco::losses
