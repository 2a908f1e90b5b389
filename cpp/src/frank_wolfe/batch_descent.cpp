// Stochastic gradient descent, noisy at every step or once a phase.

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "dpoco/core/grid.hpp"
#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"
#include "dpoco/mechanisms/sampled_gaussian.hpp"

namespace dpoco::frank_wolfe {
namespace {

using mechanisms::AdditiveLaw;

class NoisySgd final : public BatchFit {
 public:
  NoisySgd(BatchProblem problem, NoisySgdSettings settings)
      : BatchFit(std::move(problem)),
        step_size_(settings.step_size),
        mechanism_(records_.count(), static_cast<Index>(dimension()), settings.noise_scale,
                   settings.grid),
        gradient_(dimension(), 0.0),
        point_(dimension(), 0.0),
        sum_(dimension(), 0.0) {
    if (settings.steps < 1) throw std::invalid_argument("steps must be at least 1");
    if (!(step_size_ > 0.0)) throw std::invalid_argument("step_size must be positive");
    units_ = settings.steps;
  }

  void nonprivate_release(std::uint64_t k, const double* at, const double*,
                          double* out) const override {
    if (k >= records_.count()) throw std::invalid_argument("no such record");
    gradient(k, at, out);
    mechanism_.admit(out, out);
  }

  bool sampled() const noexcept override { return true; }
  std::vector<HeldNoise> held() const override {
    return {{.records = mechanism_.records(),
             .scale = mechanism_.scale(),
             .grid = mechanism_.grid(),
             .releases = units_}};
  }

 protected:
  void step() override {
    gradient(mechanism_.draw(*source_), theta_.data(), gradient_.data());
    mechanism_.release(gradient_.data(), *source_, gradient_.data());
    const std::size_t d = theta_.size();
    for (std::size_t j = 0; j < d; ++j) point_[j] = theta_[j] - step_size_ * gradient_[j];
    domain_->project(point_.data(), theta_.data());
    for (std::size_t j = 0; j < d; ++j) sum_[j] += theta_[j];
  }

  // Rounding could carry an average of points a hair out of the set.
  void finish(double* out) const override {
    std::vector<double> mean(sum_);
    for (double& entry : mean) entry /= static_cast<double>(units_);
    domain_->project(mean.data(), out);
  }

 private:
  void gradient(std::uint64_t i, const double* at, double* out) const {
    const double scalar = records_.derivative(i, at);
    const double* const row = records_.row(i);
    for (std::size_t j = 0; j < theta_.size(); ++j) out[j] = scalar * row[j];
  }

  double step_size_;
  mechanisms::SampledGaussian mechanism_;
  std::vector<double> gradient_;
  std::vector<double> point_;
  std::vector<double> sum_;
};

class PhasedSgd final : public BatchFit {
 public:
  PhasedSgd(BatchProblem problem, std::vector<SgdPhase> phases)
      : BatchFit(std::move(problem)),
        phases_(std::move(phases)),
        point_(dimension(), 0.0),
        sum_(dimension(), 0.0) {
    for (const SgdPhase& phase : phases_) {
      if (phase.records < 1 || !(phase.step_size > 0.0)) {
        throw std::invalid_argument("phases need records and a positive step size");
      }
      const auto law = phase.noise_scale == 0.0 ? AdditiveLaw::none : AdditiveLaw::gaussian;
      noise_.push_back(mechanisms::make_additive_noise(
          law, phase.noise_scale, static_cast<Index>(dimension()), phase.grid));
      units_ += phase.records;
    }
    if (phases_.empty() || units_ > records_.count()) {
      throw std::invalid_argument("the phases must share the records out among them");
    }
  }

  void nonprivate_release(std::uint64_t k, const double* at, const double*,
                          double* out) const override {
    if (k >= phases_.size()) throw std::invalid_argument("no such phase");
    std::uint64_t first = 0;
    for (std::uint64_t i = 0; i < k; ++i) first += phases_[i].records;
    std::vector<double> theta(at, at + dimension());
    std::vector<double> point(dimension());
    std::vector<double> sum(dimension(), 0.0);
    for (std::uint64_t i = 0; i < phases_[k].records; ++i) {
      walk(first + i, phases_[k].step_size, theta, point, sum);
    }
    average(sum, phases_[k], out);
  }

  std::vector<HeldNoise> held() const override {
    std::vector<HeldNoise> found;
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      found.push_back({.records = phases_[i].records,
                       .scale = noise_[i]->strength(),
                       .grid = noise_[i]->grid(),
                       .step_size = phases_[i].step_size});
    }
    return found;
  }

 protected:
  void step() override {
    const SgdPhase& phase = phases_[phase_];
    walk(first_ + seen_, phase.step_size, theta_, point_, sum_);
    if (++seen_ < phase.records) return;
    average(sum_, phase, point_.data());
    noise_[phase_]->release(point_.data(), *source_, point_.data());
    domain_->project(point_.data(), theta_.data());
    std::fill(sum_.begin(), sum_.end(), 0.0);
    first_ += seen_;
    seen_ = 0;
    ++phase_;
  }

 private:
  // One step and its share of the average. The Euclidean projection, and the step below
  // 2 / smoothness, keep two walks that differ in one earlier record from drifting apart.
  void walk(std::uint64_t i, double step_size, std::vector<double>& theta,
            std::vector<double>& point, std::vector<double>& sum) const {
    const double scalar = step_size * records_.derivative(i, theta.data());
    const double* const row = records_.row(i);
    for (std::size_t j = 0; j < theta.size(); ++j) point[j] = theta[j] - scalar * row[j];
    domain_->project(point.data(), theta.data());
    for (std::size_t j = 0; j < theta.size(); ++j) sum[j] += theta[j];
  }

  static void average(const std::vector<double>& sum, const SgdPhase& phase, double* out) {
    for (std::size_t j = 0; j < sum.size(); ++j) {
      out[j] = nearest_multiple(sum[j] / static_cast<double>(phase.records), phase.grid);
    }
  }

  std::vector<SgdPhase> phases_;
  std::vector<std::unique_ptr<mechanisms::VectorRelease>> noise_;
  std::vector<double> point_;
  std::vector<double> sum_;
  std::size_t phase_ = 0;
  std::uint64_t first_ = 0;  // record of the current phase
  std::uint64_t seen_ = 0;   // records of it so far
};

}  // namespace

std::unique_ptr<BatchFit> make_noisy_sgd(BatchProblem problem, NoisySgdSettings settings) {
  return std::make_unique<NoisySgd>(std::move(problem), settings);
}

std::unique_ptr<BatchFit> make_phased_sgd(BatchProblem problem, std::vector<SgdPhase> phases) {
  return std::make_unique<PhasedSgd>(std::move(problem), std::move(phases));
}

}  // namespace dpoco::frank_wolfe
