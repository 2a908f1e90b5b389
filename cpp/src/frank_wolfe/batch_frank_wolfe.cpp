// Frank-Wolfe on disjoint batches.

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "noisy_mean.hpp"

namespace dpoco::frank_wolfe {
namespace {

class NoisyFrankWolfe final : public BatchFit {
 public:
  NoisyFrankWolfe(BatchProblem problem, NoisyFrankWolfeSettings settings)
      : BatchFit(std::move(problem)),
        settings_(settings),
        previous_(theta_),
        sum_(dimension(), 0.0),
        rest_(dimension(), 0.0),
        direction_(dimension(), 0.0),
        vertex_(dimension(), 0.0) {
    if (settings.first_batch < 1 || settings.steps < 1 ||
        (settings.steps > 1 && settings.batch < 1)) {
      throw std::invalid_argument("steps and batches must be at least 1");
    }
    if (!(settings.step_size > 0.0 && settings.step_size <= 1.0)) {
      throw std::invalid_argument("step_size must be in (0, 1]");
    }
    if (!(settings.difference_bound > 0.0)) {
      throw std::invalid_argument("difference_bound must be positive");
    }
    units_ = settings.first_batch + (settings.steps - 1) * settings.batch;
    if (units_ > records_.count()) throw std::invalid_argument("there are too few records");
    const auto d = static_cast<Index>(dimension());
    means_.emplace_back(settings.first_batch, d, settings.first_scale, settings.first_grid);
    if (settings.steps > 1) {
      means_.emplace_back(settings.batch, d, settings.later_scale, settings.later_grid);
    }
  }

  void nonprivate_release(std::uint64_t k, const double* at, const double* previous,
                          double* out) const override {
    if (k >= settings_.steps) throw std::invalid_argument("no such batch");
    std::fill(out, out + dimension(), 0.0);
    std::vector<double> rest(dimension(), 0.0);
    const std::uint64_t first = k == 0 ? 0 : settings_.first_batch + (k - 1) * settings_.batch;
    for (std::uint64_t i = 0; i < size(k); ++i) add(first + i, k, at, previous, out, rest.data());
    mean(k).mean(out);
  }

  std::vector<HeldNoise> held() const override {
    std::vector<HeldNoise> found;
    for (std::size_t k = 0; k < means_.size(); ++k) {
      found.push_back({.records = size(k),
                       .scale = means_[k].scale(),
                       .grid = means_[k].grid(),
                       .copies = k == 0 ? 1 : settings_.steps - 1});
    }
    return found;
  }

 protected:
  void step() override {
    add(record_++, batch_, theta_.data(), previous_.data(), sum_.data(), rest_.data());
    if (++seen_ < size(batch_)) return;
    const std::size_t d = theta_.size();
    mean(batch_).release(*source_, sum_.data());
    for (std::size_t j = 0; j < d; ++j) direction_[j] += sum_[j];
    domain_->minimize_linear(direction_.data(), vertex_.data());
    previous_ = theta_;
    const double eta = settings_.step_size;
    for (std::size_t j = 0; j < d; ++j) theta_[j] += eta * (vertex_[j] - theta_[j]);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    std::fill(rest_.begin(), rest_.end(), 0.0);
    seen_ = 0;
    ++batch_;
  }

 private:
  std::uint64_t size(std::uint64_t k) const noexcept {
    return k == 0 ? settings_.first_batch : settings_.batch;
  }

  const NoisyMean& mean(std::uint64_t k) const noexcept { return means_[k == 0 ? 0 : 1]; }

  void add(std::uint64_t i, std::uint64_t k, const double* at, const double* previous, double* to,
           double* rest) const {
    double scalar = records_.derivative(i, at);
    if (k > 0) {
      const double bound = settings_.difference_bound;
      scalar = std::clamp(scalar - records_.derivative(i, previous), -bound, bound);
    }
    mean(k).add(scalar, records_.row(i), to, rest);
  }

  NoisyFrankWolfeSettings settings_;
  std::vector<double> previous_;
  std::vector<double> sum_;
  std::vector<double> rest_;  // what rounding has lost of it
  std::vector<double> direction_;
  std::vector<double> vertex_;
  std::vector<NoisyMean> means_;  // of the first batch, of the others
  std::uint64_t batch_ = 0;
  std::uint64_t record_ = 0;
  std::uint64_t seen_ = 0;  // records of the current batch
};

}  // namespace

std::unique_ptr<BatchFit> make_noisy_frank_wolfe(BatchProblem problem,
                                                 NoisyFrankWolfeSettings settings) {
  return std::make_unique<NoisyFrankWolfe>(std::move(problem), settings);
}

}  // namespace dpoco::frank_wolfe
