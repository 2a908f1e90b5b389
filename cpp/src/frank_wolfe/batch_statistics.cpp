#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/packed.hpp"
#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "noisy_mean.hpp"

namespace dpoco::frank_wolfe {
namespace {

class SufficientStatistics final : public BatchFit {
 public:
  SufficientStatistics(BatchProblem problem, StatisticsSettings settings)
      : BatchFit(std::move(problem)),
        weight_(settings.weight),
        noise_(1, static_cast<Index>(released()), settings.noise_scale, 0.0),
        sum_(released(), 0.0),
        rest_(released(), 0.0),
        leaf_(released(), 0.0) {
    if (!(weight_ > 0.0)) throw std::invalid_argument("weight must be positive");
    if (settings.records != records_.count() || settings.size != released()) {
      throw std::invalid_argument("the sum is of other records");
    }
    units_ = records_.count();
  }

  std::size_t released() const noexcept override { return packed_size(dimension()) + dimension(); }

  void nonprivate_release(std::uint64_t k, const double*, const double*,
                          double* out) const override {
    if (k != 0) throw std::invalid_argument("there is one release");
    std::vector<double> rest(released(), 0.0);
    std::vector<double> leaf(released(), 0.0);
    std::fill(out, out + released(), 0.0);
    for (std::uint64_t i = 0; i < units_; ++i) add(i, leaf.data(), out, rest.data());
  }

  double weight() const noexcept override { return weight_; }
  std::vector<HeldNoise> held() const override {
    return {{.records = units_, .scale = noise_.scale(), .grid = noise_.grid()}};
  }

 protected:
  void step() override {
    add(next_++, leaf_.data(), sum_.data(), rest_.data());
    if (next_ == units_) noise_.release(*source_, sum_.data());
  }

  void finish(double* out) const override { std::copy(sum_.begin(), sum_.end(), out); }

 private:
  void add(std::uint64_t i, double* leaf, double* sum, double* rest) const {
    double* next = leaf;
    add_quadratic(records_.row(i), records_.label(i), weight_, dimension(),
                  [&](double entry) { *next++ = entry; });
    noise_.add(1.0, leaf, sum, rest);
  }

  double weight_;
  NoisyMean noise_;
  std::uint64_t next_ = 0;
  std::vector<double> sum_;
  std::vector<double> rest_;
  std::vector<double> leaf_;
};

}  // namespace

std::unique_ptr<BatchFit> make_sufficient_statistics(BatchProblem problem,
                                                     StatisticsSettings settings) {
  return std::make_unique<SufficientStatistics>(std::move(problem), settings);
}

}  // namespace dpoco::frank_wolfe
