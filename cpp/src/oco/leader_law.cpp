#include "leader_law.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

using losses::LossSum;

constexpr double kLogTwoPi = 1.8378770664093454836;

// |grad J + Z| may be this many noise scales if rounding prevents better.
constexpr double kResidual = 1e-9;

// A factor is computed again after this many updates.
constexpr std::uint64_t kMostUpdates = 512;

bool finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double each) { return std::isfinite(each); });
}

using simd::dot;

Regularizer with_walls(Regularizer regularizer, const domains::Body& body) {
  if (regularizer.barrier && body.kind() == domains::Body::Kind::polytope) {
    regularizer.rows = body.rows();
    regularizer.bounds = body.bounds();
  }
  return regularizer;
}

// ln of N(0, before I) at -from over N(0, after I) at -to.
double log_gaussian_ratio(const std::vector<double>& from, const std::vector<double>& step,
                          double before, double after) {
  const double cross = dot(from, step);
  const double square = dot(step, step);
  if (before == after) return -(2.0 * cross + square) / (2.0 * after);
  const double own = dot(from, from);
  const auto n = static_cast<double>(from.size());
  return own * (0.5 / before - 0.5 / after) - (2.0 * cross + square) / (2.0 * after) -
         0.5 * n * elementary::log(after / before);
}

}  // namespace

LeaderLaw::LeaderLaw(LossSum& sum) : sum_(sum), n_(static_cast<std::size_t>(sum.dimension())) {
  at_.u.assign(n_, 0.0);
  at_.slope.assign(n_, 0.0);
  gradient_.assign(n_, 0.0);
  staged_.assign(n_, 0.0);
}

void LeaderLaw::write(Archive& archive) const { archive.reals(at_.u, at_.slope); }

void LeaderLaw::read(ArchiveReader& archive) {
  archive.reals(at_.u, at_.slope);
  if (!finite(at_.u) || !finite(at_.slope)) throw StateError("state holds no decision");
}

namespace {

// Uses y in place of u: grad J = S - y = -Z, and the determinant is 1.
class ShiftedGaussian final : public LeaderLaw {
 public:
  explicit ShiftedGaussian(LossSum& sum) : LeaderLaw(sum) {}

  void draw(std::span<const double> z, double, bool) override {
    sum_.gradient({}, at_.slope);
    for (std::size_t i = 0; i < n_; ++i) at_.u[i] = at_.slope[i] + z[i];
  }

  bool stage(bool) override {
    sum_.staged_gradient({}, staged_);
    const bool counts = finite(staged_);
    if (!counts) stage_zero();
    return counts;
  }
  void stage_zero() override { std::fill(staged_.begin(), staged_.end(), 0.0); }
  double log_ratio(double before, double after, bool committed) override {
    for (std::size_t i = 0; i < n_; ++i) gradient_[i] = at_.slope[i] - at_.u[i];
    if (committed) {
      for (std::size_t i = 0; i < n_; ++i) gradient_[i] -= staged_[i];
    }
    return log_gaussian_ratio(gradient_, staged_, before, after);
  }
  void absorb(bool) override { sum_.gradient({}, at_.slope); }

  double log_density(std::span<const double> u, double variance) override {
    go(u);
    for (std::size_t i = 0; i < n_; ++i) gradient_[i] = at_.slope[i] - at_.u[i];
    return -dot(gradient_, gradient_) / (2.0 * variance) -
           0.5 * static_cast<double>(n_) * (kLogTwoPi + elementary::log(variance));
  }
  void go(std::span<const double> u) override {
    std::ranges::copy(u, at_.u.begin());
    sum_.gradient({}, at_.slope);
  }

  std::unique_ptr<LeaderLaw> clone() const override {
    return std::make_unique<ShiftedGaussian>(*this);
  }
};

class RegularizedLeader final : public LeaderLaw {
 public:
  RegularizedLeader(LossSum& sum, Regularizer regularizer)
      : LeaderLaw(sum),
        solver_(with_walls(std::move(regularizer), sum.body())),
        // In one dimension the Hessian is a number, so there is no direction to split off.
        rank_one_(sum.rank() == 1 && n_ > 1),
        slope_rest_(n_, 0.0),
        curvature_rest_(n_ * n_, 0.0),
        pull_(n_, 0.0),
        white_(n_, 0.0),
        factor_(sum.dimension()),
        next_factor_(rank_one_ ? 0 : sum.dimension()),
        staged_hessian_(rank_one_ ? 0 : n_ * n_, 0.0),
        staged_sum_(staged_hessian_),
        matrix_(n_ * n_, 0.0) {
    at_.curvature.assign(n_ * n_, 0.0);
    settle(false);
  }

  void draw(std::span<const double> z, double variance, bool density) override {
    if (variance == 0.0 && regularizer().inverse_step == 0.0 && sum_.empty()) {
      std::fill(at_.u.begin(), at_.u.end(), 0.0);  // the barrier's centre, or no losses yet
    } else {
      residual_ = solver_.solve(sum_, z, kResidual * size(variance), at_);
    }
    settle(density);
  }
  double residual() const noexcept override { return residual_; }

  bool stage(bool density) override {
    sum_.staged_gradient(at_.u, staged_);
    bool counts = finite(staged_);
    if (rank_one_) {
      bend_ = sum_.staged_curvature(at_.u);
      counts = counts && std::isfinite(bend_) && bend_ >= 0.0;
    } else {
      sum_.staged_hessian(at_.u, staged_hessian_);
      counts = counts && finite(staged_hessian_);
      if (counts && density) {
        counts = factor_with_staged(1.0);
      }
    }
    if (!counts) stage_zero();
    return counts;
  }
  void stage_zero() override {
    std::fill(staged_.begin(), staged_.end(), 0.0);
    std::fill(staged_hessian_.begin(), staged_hessian_.end(), 0.0);
    bend_ = 0.0;
    if (!rank_one_) next_factor_ = factor_;
  }

  double log_ratio(double before, double after, bool committed) override {
    for (std::size_t i = 0; i < n_; ++i) {
      gradient_[i] = at_.slope[i] + pull_[i] - (committed ? staged_[i] : 0.0);
    }
    const double gaussian = log_gaussian_ratio(gradient_, staged_, before, after);
    if (rank_one_) {
      factor_.whiten(sum_.staged_direction(), white_);
      const double gain = bend_ * dot(white_, white_);
      // det(H + k vv') = det H (1 + k v'H^-1 v), and the inverse factor if H already contains the
      // loss
      return gaussian + (committed ? -elementary::log1p(-gain) : elementary::log1p(gain));
    }
    if (!committed) {
      return gaussian + (next_factor_.log_determinant() - factor_.log_determinant());
    }
    if (!factor_with_staged(-1.0)) return gaussian;
    return gaussian + (factor_.log_determinant() - next_factor_.log_determinant());
  }

  void absorb(bool density) override {
    for (std::size_t i = 0; i < n_; ++i) {
      add_compensated(staged_[i], at_.slope[i], slope_rest_[i]);
    }
    if (!rank_one_) {
      for (std::size_t i = 0; i < n_ * n_; ++i) {
        add_compensated(staged_hessian_[i], at_.curvature[i], curvature_rest_[i]);
      }
      if (density) std::swap(factor_, next_factor_);
      return;
    }
    const std::span<const double> v = sum_.staged_direction();
    for (std::size_t i = 0; i < n_; ++i) {
      const double weight = bend_ * v[i];
      for (std::size_t j = 0; j < n_; ++j) {
        add_compensated(weight * v[j], at_.curvature[i * n_ + j], curvature_rest_[i * n_ + j]);
      }
    }
    if (!density) return;
    if (++updates_ >= kMostUpdates) {
      make_factor();
    } else {
      factor_.update(bend_, v);
    }
  }

  double log_density(std::span<const double> u, double variance) override {
    go(u);
    for (std::size_t i = 0; i < n_; ++i) gradient_[i] = at_.slope[i] + pull_[i];
    return -dot(gradient_, gradient_) / (2.0 * variance) -
           0.5 * static_cast<double>(n_) * (kLogTwoPi + elementary::log(variance)) +
           factor_.log_determinant();
  }
  void go(std::span<const double> u) override {
    std::ranges::copy(u, at_.u.begin());
    sum_.gradient(at_.u, at_.slope);
    settle(true);
  }

  void write(Archive& archive) const override {
    LeaderLaw::write(archive);
    archive.reals(at_.curvature, factor_.entries(), slope_rest_, curvature_rest_);
    archive.word(updates_);
    archive.real(residual_);
  }
  void read(ArchiveReader& archive) override {
    LeaderLaw::read(archive);
    archive.reals(at_.curvature, factor_.entries(), slope_rest_, curvature_rest_);
    updates_ = archive.word_below(kMostUpdates);
    residual_ = archive.real();
    regularizer().gradient(at_.u, pull_);
    if (!regularizer().inside(at_.u) || !are_rests(at_.slope, slope_rest_) ||
        !are_rests(at_.curvature, curvature_rest_) || !finite(factor_.entries()) ||
        !finite(pull_)) {
      throw StateError("state holds no decision");
    }
    for (std::size_t k = 0; k < n_; ++k) {
      if (!(at_.curvature[k * n_ + k] >= 0.0)) throw StateError("state holds no curvature");
    }
  }

  std::unique_ptr<LeaderLaw> clone() const override {
    return std::make_unique<RegularizedLeader>(*this);
  }

 private:
  const Regularizer& regularizer() const noexcept { return solver_.regularizer(); }

  // Scale of a residual: the noise; without noise, the gradients that must balance.
  double size(double variance) const {
    if (variance > 0.0) return std::sqrt(variance);
    return std::sqrt(dot(at_.slope, at_.slope)) +
           regularizer().inverse_step * std::sqrt(dot(at_.u, at_.u));
  }

  // next_factor_ = factor of the Hessian of J at the point, plus `sign` times the staged Hessian.
  bool factor_with_staged(double sign) {
    for (std::size_t i = 0; i < staged_hessian_.size(); ++i) {
      staged_sum_[i] = at_.curvature[i] + sign * staged_hessian_[i];
    }
    return regularizer().factor(at_.u, staged_sum_, matrix_, next_factor_);
  }

  void make_factor() {
    if (!regularizer().factor(at_.u, at_.curvature, matrix_, factor_)) {
      throw StateError("the sum of the losses and the regularizer is not strictly convex");
    }
    updates_ = 0;
  }

  // After a move, updates all values that depend on the point.
  void settle(bool density) {
    const bool exact = std::exchange(at_.exact, false);
    std::fill(slope_rest_.begin(), slope_rest_.end(), 0.0);
    std::fill(curvature_rest_.begin(), curvature_rest_.end(), 0.0);
    regularizer().gradient(at_.u, pull_);
    if (!density) return;
    if (exact) {
      at_.curvature = solver_.hessian();
    } else {
      sum_.hessian(at_.u, at_.curvature);
    }
    make_factor();
  }

  LeaderSolver solver_;
  bool rank_one_;
  double residual_ = 0.0;
  // Compensation of the rounding errors of the point's slope and curvature since the last move.
  std::vector<double> slope_rest_;
  std::vector<double> curvature_rest_;
  std::vector<double> pull_;  // the regularizer's gradient at the point
  double bend_ = 0.0;         // staged Hessian = bend_ * direction direction'
  std::vector<double> white_;
  CholeskyFactor factor_;  // of the Hessian of J at the point, if its density is wanted
  CholeskyFactor next_factor_;
  std::vector<double> staged_hessian_;
  std::vector<double> staged_sum_;  // sum of the committed and staged losses
  std::vector<double> matrix_;
  std::uint64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<LeaderLaw> make_shifted_gaussian(LossSum& sum) {
  return std::make_unique<ShiftedGaussian>(sum);
}

std::unique_ptr<LeaderLaw> make_leader_law(LossSum& sum, Regularizer regularizer) {
  return std::make_unique<RegularizedLeader>(sum, std::move(regularizer));
}

}  // namespace dpoco::oco
