#include "gibbs_envelope.hpp"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

using losses::LossSum;

namespace {

// Relative to the trace of a sum of positive semidefinite terms, this exceeds the rounding errors
// of the sum and of its eigenvalues. With the curvature reduced by this much, the paraboloid stays
// below F.
constexpr double kReserve = 1e-10;

bool has_own_law(const domains::Body& body) {
  using Kind = domains::Body::Kind;
  return body.kind() != Kind::lp_ball && (body.kind() != Kind::polytope || body.simplex());
}

// For an l_p ball with p < 4, the Euclidean ball of the same radius around it; otherwise the
// smallest box, which is tighter then. `shift` becomes its centre.
domains::Body around(const domains::Body& body, Vector& shift) {
  shift = Vector::Zero(body.dimension());
  if (has_own_law(body)) return body;
  constexpr double kRounding = 1.0 + 1e-12;
  if (body.kind() == domains::Body::Kind::lp_ball && body.exponent() < 4.0) {
    return domains::Body::of(
        std::make_shared<domains::LpBall>(body.dimension(), 2.0, kRounding * body.radius()), false);
  }
  Vector half(body.dimension());
  Vector unit = Vector::Zero(body.dimension());
  for (Index i = 0; i < half.size(); ++i) {
    unit[i] = 1.0;
    const double low = body.support_low(view(unit));
    unit[i] = -1.0;
    const double high = -body.support_low(view(unit));
    unit[i] = 0.0;
    shift[i] = 0.5 * (low + high);
    half[i] = kRounding * 0.5 * (high - low);
  }
  return domains::Body::of(std::make_shared<domains::Box>(-half, half), false);
}

}  // namespace

FlatSampler::FlatSampler(const domains::Body& body)
    : body_(body),
      direct_(has_own_law(body)),
      law_(around(body, shift_)),
      moved_(body.dimension()) {}

std::uint64_t FlatSampler::sample(random::Source& source, const Vector& mean, double scale,
                                  Vector& out, std::uint64_t most, bool& inside) {
  moved_ = mean - shift_;
  for (std::uint64_t proposals = 1;; ++proposals) {
    law_.sample(source, view(moved_), scale, view(out));
    if (!direct_) out += shift_;
    inside = direct_ || body_.contains(view(out), 0.0);
    if (inside || proposals == most) return proposals;
  }
}

double FlatSampler::pilot_share(random::Source& source, const Vector& mean, double scale,
                                Vector& scratch) {
  if (direct_) return 1.0;
  constexpr int kDraws = 200;
  int inside = 0;
  for (int k = 0; k < kDraws; ++k) {
    moved_ = mean - shift_;
    law_.sample(source, view(moved_), scale, view(scratch));
    scratch += shift_;
    inside += body_.contains(view(scratch), 0.0) ? 1 : 0;
  }
  return inside / static_cast<double>(kDraws);
}

double log_determinant(const Cholesky& factor) {
  double sum = 0.0;
  for (Index i = 0; i < factor.rows(); ++i) {
    sum += elementary::log(factor.matrixLLT()(i, i));
  }
  return 2.0 * sum;
}

Envelope::Envelope(domains::Body body, double inverse_temperature, double regularization)
    : body_(std::move(body)),
      flat_(body_),
      beta_(inverse_temperature),
      lam_(regularization),
      origin_(body_.dimension()),
      slope_(body_.dimension()),
      mean_(body_.dimension()),
      least_(body_.dimension(), body_.dimension()),
      precision_(body_.dimension(), body_.dimension()),
      factor_(body_.dimension()),
      target_(body_.dimension()),
      eigen_(body_.dimension()),
      offset_(body_.dimension()),
      scratch_(body_.dimension()) {}

void Envelope::build(const Minorant& below) {
  whole_ = false;
  curvature_ = 0.0;
  origin_ = below.at;
  slope_ = below.slope;
  height_ = below.height;
  scale_ = 1.0 / std::sqrt(beta_ * lam_);
  mean_ = -slope_ / lam_;
}

void Envelope::build(LossSum& sum, const Vector& at, const Matrix& hessian, bool flat) {
  const auto n = static_cast<double>(body_.dimension());
  origin_ = at;
  sum.gradient(view(at), view(slope_));
  height_ = sum.value(view(at));
  least_.setZero();
  sum.add_least_hessian(view(least_));
  const double reserve = kReserve * least_.trace();

  precision_ = hessian;
  precision_.diagonal().array() += lam_;
  target_.compute(precision_);
  const double target =
      target_.info() == Eigen::Success ? log_determinant(target_) : n * elementary::log(lam_);

  // The gradient of F + lam ||u||^2 / 2. The Gaussian's mean is x0 - (lam I + C)^-1 times it.
  offset_ = slope_ + lam_ * at;

  whole_ = false;
  if (!flat && reserve > 0.0 && lam_ > 2.0 * reserve) {
    least_.diagonal().array() -= reserve;
    precision_ = least_;
    precision_.diagonal().array() += lam_;
    factor_.compute(precision_);
    whole_ = factor_.info() == Eigen::Success;
  }
  double log_whole = -std::numeric_limits<double>::infinity();
  if (whole_) {
    mean_ = offset_;
    factor_.solveInPlace(mean_);
    const double far = offset_.dot(mean_);
    mean_ = at - mean_;
    log_whole = 0.5 * (log_determinant(factor_) - target) + log_inside(at) - 0.5 * beta_ * far;
    if (body_.kind() == domains::Body::Kind::space) {
      log_acceptance_ = log_whole;
      return;
    }
    least_.diagonal().array() += reserve;
  }

  eigen_.compute(least_, Eigen::EigenvaluesOnly);
  curvature_ = std::max(eigen_.eigenvalues()[0] - reserve, 0.0);
  const double log_flat = 0.5 * (n * elementary::log(lam_ + curvature_) - target);
  if (whole_ && log_whole > log_flat) {
    least_.diagonal().array() -= reserve;
    log_acceptance_ = log_whole;
    return;
  }
  whole_ = false;
  log_acceptance_ = log_flat;
  scale_ = 1.0 / std::sqrt(beta_ * (lam_ + curvature_));
  mean_ = at - offset_ / (lam_ + curvature_);
}

// The log probability that the Gaussian around `at` is inside: the product over independent
// directions of the chord's share. A logistic law replaces the normal one. The result only chooses
// between exact methods.
double Envelope::log_inside(const Vector& at) {
  if (body_.kind() == domains::Body::Kind::space) return 0.0;
  constexpr double kLogisticScale = 1.702;
  const double unit = kLogisticScale * std::sqrt(beta_);
  double sum = 0.0;
  for (Index i = 0; i < body_.dimension(); ++i) {
    scratch_.setZero();
    scratch_[i] = 1.0;
    factor_.matrixU().solveInPlace(scratch_);
    double low = 0.0;
    double high = 0.0;
    body_.chord(view(at), view(scratch_), low, high);
    const double share = elementary::sigmoid(unit * high) - elementary::sigmoid(unit * low);
    sum += share > 1e-300 ? elementary::log(share) : -690.0;
  }
  return sum;
}

// beta (F(u) - the paraboloid at u), nonnegative up to rounding.
double Envelope::excess(LossSum& sum, const Vector& u) {
  offset_ = u - origin_;
  double below = slope_.dot(offset_);
  if (whole_) {
    scratch_.noalias() = least_ * offset_;
    below += 0.5 * offset_.dot(scratch_);
  } else {
    below += 0.5 * curvature_ * offset_.squaredNorm();
  }
  return beta_ * (sum.value(view(u)) - height_ - below);
}

std::uint64_t Envelope::sample(random::Source& source, LossSum& sum, Vector& out,
                               std::uint64_t most, bool& accepted) {
  const auto n = static_cast<std::size_t>(body_.dimension());
  const double unit = 1.0 / std::sqrt(beta_);
  std::uint64_t proposals = 0;
  for (;;) {
    bool inside = true;
    if (whole_) {
      source.fill(random::Variate::gaussian, view(out).first(n));
      factor_.matrixU().solveInPlace(out);
      out = mean_ + unit * out;
      inside = body_.contains(view(out), 0.0);
      ++proposals;
    } else {
      proposals += flat_.sample(source, mean_, scale_, out, most - proposals, inside);
    }
    // P(exponential >= x) = exp(-x), and 1 for x <= 0. A value that is not a number ends the loop.
    accepted = inside && !(source.exponential() < excess(sum, out));
    if (accepted || proposals >= most) return proposals;
  }
}

}  // namespace dpoco::samplers
