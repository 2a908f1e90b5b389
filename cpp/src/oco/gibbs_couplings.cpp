#include "gibbs_couplings.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/oco/newton.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

using losses::LossSum;

// The Gibbs law of F = <S, u> is N(-S/lam, I/(beta lam)) on the body. Let m, m' be the means before
// and after a loss <w, u>, and P the normal probability of the body. Then
//   ln(Z'/Z) = -beta <w, m> + beta ||w||^2 / (2 lam) + ln P(m') - ln P(m).
class LinearNormalizer final : public LogNormalizer {
 public:
  LinearNormalizer(LossSum& sum, double beta, double lam)
      : LogNormalizer(beta),
        lam_(lam),
        scale_(1.0 / std::sqrt(beta * lam)),
        law_(sum.body()),
        mean_(static_cast<std::size_t>(sum.dimension()), 0.0),
        gradient_(mean_) {
    find_mean(sum);
    log_mass_ = law_.log_mass(mean_, scale_);
  }

  void advance(LossSum& sum) override {
    reference_ = sum.staged_value(mean_);
    sum.staged_gradient(mean_, gradient_);
    const double square = simd::dot(gradient_, gradient_);
    find_mean(sum);
    const double before = log_mass_;
    log_mass_ = law_.log_mass(mean_, scale_);
    excess_ = 0.5 * beta_ * square / lam_ + (log_mass_ - before);
  }

  // All other values follow from the sum. The last round's values are only diagnostics.
  void write(Archive& archive) const override {
    archive.real(reference_);
    archive.real(excess_);
  }
  void read(ArchiveReader& archive, LossSum& sum) override {
    reference_ = archive.real();
    excess_ = archive.real();
    find_mean(sum);
    log_mass_ = law_.log_mass(mean_, scale_);
  }

 private:
  void find_mean(LossSum& sum) {
    sum.gradient(mean_, gradient_);  // the same everywhere
    for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] = -gradient_[i] / lam_;
  }

  double lam_;
  double scale_;
  samplers::TruncatedGaussian law_;
  std::vector<double> mean_;
  std::vector<double> gradient_;
  double log_mass_ = 0.0;
};

// For quadratic F on R^d, let H = Hessian(F) + lam I and m the minimiser of F + lam ||u||^2 / 2,
// with H' and m' after a loss l with gradient p at m. Then
//   ln(Z'/Z) = -beta l(m) + (beta/2) p'H'^-1 p - ln(det H' / det H) / 2,   m' = m - H'^-1 p.
class QuadraticNormalizer final : public LogNormalizer {
 public:
  QuadraticNormalizer(LossSum& sum, double beta, double lam)
      : LogNormalizer(beta),
        lam_(lam),
        n_(static_cast<std::size_t>(sum.dimension())),
        factor_(sum.dimension()),
        matrix_(n_ * n_, 0.0),
        mode_(n_, 0.0),
        gradient_(n_, 0.0),
        step_(n_, 0.0) {
    rebuild(sum);
  }

  void advance(LossSum& sum) override {
    reference_ = sum.staged_value(mode_);
    sum.staged_gradient(mode_, gradient_);
    const double log_det = take_curvature(sum);
    factor_.solve(gradient_, step_);
    const double decrease = simd::dot(gradient_, step_);
    excess_ = 0.5 * (beta_ * decrease - log_det);
    for (std::size_t i = 0; i < n_; ++i) mode_[i] -= step_[i];
    if (++updates_ == kUpdates) rebuild(sum);
  }

  void write(Archive& archive) const override {
    archive.real(reference_);
    archive.real(excess_);
    archive.word(updates_);
    archive.reals(factor_.entries(), mode_);
  }
  void read(ArchiveReader& archive, LossSum&) override {
    std::vector<double>& entries = factor_.entries();
    reference_ = archive.real();
    excess_ = archive.real();
    updates_ = archive.word_below(kUpdates);
    archive.reals(entries, mode_);
    const auto finite = [](double x) { return std::isfinite(x); };
    bool sound = std::all_of(entries.begin(), entries.end(), finite) &&
                 std::all_of(mode_.begin(), mode_.end(), finite);
    for (std::size_t i = 0; i < n_; ++i) sound = sound && entries[i * n_ + i] > 0.0;
    if (!sound) throw StateError("state holds no normaliser");
  }

 private:
  // After this many updates the factor is computed again, because rounding errors add up.
  static constexpr std::uint64_t kUpdates = 512;

  void factorize(LossSum& sum) {
    sum.hessian(mode_, matrix_);
    for (std::size_t i = 0; i < n_; ++i) matrix_[i * n_ + i] += lam_;
    if (!factor_.compute(matrix_)) throw StateError("the sum of losses is not convex");
  }

  void rebuild(LossSum& sum) {
    updates_ = 0;
    factorize(sum);
    std::fill(step_.begin(), step_.end(), 0.0);
    sum.gradient(step_, gradient_);  // at 0
    factor_.solve(gradient_, mode_);
    for (double& each : mode_) each = -each;
  }

  // Updates H to H' and returns ln(det H' / det H). In one dimension a full rank is rank 1.
  double take_curvature(LossSum& sum) {
    if (sum.rank() != 1 || n_ == 1) {
      const double before = factor_.log_determinant();
      factorize(sum);
      return factor_.log_determinant() - before;
    }
    const double curvature = sum.staged_curvature(mode_);
    const std::span<const double> direction = sum.staged_direction();
    factor_.whiten(direction, step_);
    const double square = simd::dot(step_, step_);
    factor_.update(curvature, direction);
    return elementary::log1p(curvature * square);
  }

  double lam_;
  std::size_t n_;
  std::uint64_t updates_ = 0;
  CholeskyFactor factor_;  // of H
  std::vector<double> matrix_;
  std::vector<double> mode_;  // m
  std::vector<double> gradient_;
  std::vector<double> step_;
};

}  // namespace

std::unique_ptr<LogNormalizer> make_log_normalizer(LossSum& sum, double beta, double lam) {
  if (sum.kind() == LossSum::Kind::linear &&
      samplers::TruncatedGaussian(sum.body()).has_log_mass()) {
    return std::make_unique<LinearNormalizer>(sum, beta, lam);
  }
  if (sum.kind() == LossSum::Kind::quadratic && sum.body().kind() == domains::Body::Kind::space) {
    return std::make_unique<QuadraticNormalizer>(sum, beta, lam);
  }
  throw std::invalid_argument(
      "the normaliser has a closed form for linear losses on R^d, a ball or a box, and for "
      "quadratic ones on R^d only");
}

double tail_quantile(double g, double error) {
  const double target = elementary::log(g) - elementary::log(error);
  double low = 0.0;
  double high = 64.0;  // its tail is far below the smallest double
  for (int k = 0; k < 200; ++k) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (elementary::log(middle) + 0.5 * middle * middle < target ? low : high) = middle;
  }
  return high;
}

Anchors::Anchors(Index dimension, AnchorSettings settings, bool linear)
    : settings_(settings),
      linear_(linear),
      dimension_(static_cast<std::size_t>(dimension)),
      drawn_(settings.count, 0),
      points_(settings.count * dimension_, 0.0),
      mean_(dimension_, 0.0) {
  const double g = settings.noise_to_signal;
  const auto rounds = static_cast<double>(settings.horizon);
  // All means of `count` points in a run of `horizon` rounds stay within z standard errors.
  const double z = std::sqrt(2.0 * (elementary::log(2.0) + 3.0 * elementary::log(rounds)));
  fixed_width_ =
      tail_quantile(g, settings.error) * g + z * g / std::sqrt(static_cast<double>(settings.count));
}

void Anchors::add(std::span<const double> u, std::uint64_t drawn) {
  assert(u.size() == dimension_);
  std::ranges::copy(u, points_.data() + oldest_ * dimension_);
  drawn_[oldest_] = drawn;
  oldest_ = (oldest_ + 1) % drawn_.size();
  refresh();
}

void Anchors::refresh() {
  const auto count = static_cast<double>(drawn_.size());
  std::fill(mean_.begin(), mean_.end(), 0.0);
  std::uint64_t total = 0;
  for (std::size_t k = 0; k < drawn_.size(); ++k) {
    total += drawn_[k];
    for (std::size_t i = 0; i < dimension_; ++i) mean_[i] += points_[k * dimension_ + i];
  }
  for (double& each : mean_) each /= count;
  drawn_mean_ = static_cast<double>(total) / count;
}

double Anchors::mean_loss(LossSum& sum) const {
  if (linear_) return sum.staged_value(mean_);
  double total = 0.0;
  for (std::size_t k = 0; k < drawn_.size(); ++k) {
    total += sum.staged_value(std::span(points_).subspan(k * dimension_, dimension_));
  }
  return total / static_cast<double>(drawn_.size());
}

double Anchors::width(std::uint64_t round) const noexcept {
  const double g = settings_.noise_to_signal;
  return fixed_width_ + g * g * (static_cast<double>(round) - drawn_mean_);
}

void Anchors::write(Archive& archive) const {
  archive.word(oldest_);
  for (const std::uint64_t each : drawn_) archive.word(each);
  archive.reals(points_);
}

void Anchors::read(ArchiveReader& archive, const domains::Body& body, std::uint64_t round) {
  constexpr double kTolerance = 1e-6;
  oldest_ = archive.word_below(drawn_.size());
  for (std::uint64_t& each : drawn_) each = archive.word_below(round + 1);
  archive.reals(points_);
  for (std::size_t k = 0; k < drawn_.size(); ++k) {
    if (!body.contains(std::span(points_).subspan(k * dimension_, dimension_), kTolerance)) {
      throw StateError("state holds an anchor outside the domain");
    }
  }
  refresh();
}

}  // namespace dpoco::oco
