// Localised mirror descent in l_p, 1 < p <= 2.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/domains/norms.hpp"
#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"
#include "noisy_mean.hpp"

namespace dpoco::frank_wolfe {
namespace {

class LocalizedMirrorDescent final : public BatchFit {
 public:
  LocalizedMirrorDescent(BatchProblem problem, double p, double domain_radius, std::uint64_t steps,
                         std::vector<MirrorPhase> phases)
      : BatchFit(std::move(problem)),
        p_(p),
        q_(p / (p - 1.0)),
        domain_radius_(domain_radius),
        steps_(steps),
        phases_(std::move(phases)),
        anchor_(theta_),
        sum_(dimension(), 0.0),
        rest_(dimension(), 0.0),
        dual_(dimension(), 0.0),
        mean_(dimension(), 0.0) {
    if (!(p > 1.0 && p <= 2.0)) throw std::invalid_argument("p must be in (1, 2]");
    if (steps < 1) throw std::invalid_argument("steps must be at least 1");
    std::uint64_t records = 0;
    for (const MirrorPhase& phase : phases_) {
      if (phase.records < 1 || !(phase.regularization > 0.0) || !(phase.radius > 0.0)) {
        throw std::invalid_argument("phases need records, a regularization and a radius");
      }
      means_.emplace_back(phase.records, static_cast<Index>(dimension()), phase.noise_scale,
                          phase.grid);
      records += phase.records;
      units_ += phase.records * steps;
    }
    if (phases_.empty() || records > records_.count()) {
      throw std::invalid_argument("the phases must share the records out among them");
    }
  }

  void nonprivate_release(std::uint64_t k, const double* at, const double*,
                          double* out) const override {
    if (k >= phases_.size()) throw std::invalid_argument("no such phase");
    std::uint64_t first = 0;
    for (std::uint64_t i = 0; i < k; ++i) first += phases_[i].records;
    std::fill(out, out + dimension(), 0.0);
    std::vector<double> rest(dimension(), 0.0);
    for (std::uint64_t i = 0; i < phases_[k].records; ++i) {
      add(first + i, k, at, out, rest.data());
    }
    means_[k].mean(out);
  }

  std::vector<HeldNoise> held() const override {
    std::vector<HeldNoise> found;
    for (std::size_t k = 0; k < phases_.size(); ++k) {
      found.push_back({.records = phases_[k].records,
                       .scale = means_[k].scale(),
                       .grid = means_[k].grid(),
                       .releases = steps_});
    }
    return found;
  }

 protected:
  void step() override {
    const MirrorPhase& phase = phases_[phase_];
    add(first_ + seen_, phase_, theta_.data(), sum_.data(), rest_.data());
    if (++seen_ < phase.records) return;
    means_[phase_].release(*source_, sum_.data());
    move(phase);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    std::fill(rest_.begin(), rest_.end(), 0.0);
    seen_ = 0;
    if (++taken_ == steps_) finish_phase(phase);
  }

 private:
  void add(std::uint64_t i, std::size_t phase, const double* at, double* to, double* rest) const {
    means_[phase].add(records_.derivative(i, at), records_.row(i), to, rest);
  }

  // With step sizes 2 / (lambda (t + 1)): dual <- ((t + 1) dual - (2 / lambda) g) / (t + 3), then
  // theta = anchor + grad h*(dual), scaled into the ball. Averages with weights t.
  void move(const MirrorPhase& phase) {
    const std::size_t d = theta_.size();
    const auto t = static_cast<double>(taken_ + 1);
    const double rate = 2.0 / phase.regularization;
    for (std::size_t j = 0; j < d; ++j) {
      dual_[j] = ((t + 1.0) * dual_[j] - rate * sum_[j]) / (t + 3.0);
    }
    const simd::Kernels& k = simd::kernels();
    const double largest = k.max_abs(dual_.data(), d);
    const double norm = domains::norm(dual_.data(), static_cast<Index>(d), q_);
    if (largest > 0.0 && std::isfinite(norm)) {
      // |grad h*(dual)|_p = (p - 1) |dual|_q
      double length = (p_ - 1.0) * norm;
      if (length > phase.radius) {
        const double shrink = phase.radius / length;
        for (std::size_t j = 0; j < d; ++j) dual_[j] *= shrink;
        length = phase.radius;
      }
      k.signed_power(dual_.data(), d, 1.0 / k.max_abs(dual_.data(), d), q_ - 1.0, theta_.data());
      const double factor = length * elementary::power(largest / norm, q_ - 1.0);
      for (std::size_t j = 0; j < d; ++j) theta_[j] = anchor_[j] + factor * theta_[j];
    } else {
      theta_ = anchor_;
    }
    for (std::size_t j = 0; j < d; ++j) mean_[j] += t * theta_[j];
  }

  void finish_phase(const MirrorPhase& phase) {
    const auto t = static_cast<double>(steps_);
    for (double& entry : mean_) entry /= 0.5 * t * (t + 1.0);
    const double norm = domains::norm(mean_.data(), static_cast<Index>(mean_.size()), p_);
    const double shrink = norm > domain_radius_ ? domain_radius_ / norm : 1.0;
    for (std::size_t j = 0; j < mean_.size(); ++j) theta_[j] = shrink * mean_[j];
    anchor_ = theta_;
    std::fill(mean_.begin(), mean_.end(), 0.0);
    std::fill(dual_.begin(), dual_.end(), 0.0);
    first_ += phase.records;
    taken_ = 0;
    ++phase_;
  }

  double p_;
  double q_;
  double domain_radius_;
  std::uint64_t steps_;
  std::vector<MirrorPhase> phases_;
  std::vector<double> anchor_;
  std::vector<double> sum_;
  std::vector<double> rest_;  // what rounding has lost of it
  std::vector<double> dual_;
  std::vector<double> mean_;
  std::vector<NoisyMean> means_;
  std::size_t phase_ = 0;
  std::uint64_t first_ = 0;  // record of the current phase
  std::uint64_t seen_ = 0;   // records of it in the current step
  std::uint64_t taken_ = 0;  // steps of the current phase
};

}  // namespace

std::unique_ptr<BatchFit> make_localized_mirror_descent(BatchProblem problem, double p,
                                                        double domain_radius, std::uint64_t steps,
                                                        std::vector<MirrorPhase> phases) {
  return std::make_unique<LocalizedMirrorDescent>(std::move(problem), p, domain_radius, steps,
                                                  std::move(phases));
}

}  // namespace dpoco::frank_wolfe
