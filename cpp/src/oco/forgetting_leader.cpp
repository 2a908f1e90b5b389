#include "dpoco/oco/forgetting_leader.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

// Constants of the choice, fixed on streams that are not in the tests. The weight of a candidate is
// exp(-(excess + 2 deviations) / (quarter of the median deviation)).
constexpr double kCaution = 2.0;
constexpr double kTemperature = 0.25;

// The step of a finite difference, in deviations: far above the solver's error, far below the
// noise.
constexpr double kStep = 0x1p-10;

const double& behind(const std::vector<double>& values, std::uint64_t push) {
  return values[std::min<std::uint64_t>(push, values.size()) - 1];
}

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// theta'A theta - 2 theta'b is the inner product of this vector with (packed A, scale b).
void write_quadratic(std::span<const double> theta, double scale, std::span<double> to) {
  double* out = to.data();
  for (std::size_t i = 0; i < theta.size(); ++i) {
    *out++ = theta[i] * theta[i];
    for (std::size_t j = i + 1; j < theta.size(); ++j) *out++ = kSqrtTwo * theta[i] * theta[j];
  }
  for (const double each : theta) *out++ = -2.0 * each / scale;
}

// Signs that depend only on the number of the push, never on the key of the noise.
void write_signs(std::uint64_t push, std::span<double> to) {
  std::uint64_t state = push * 0x9E3779B97F4A7C15u;
  for (double& each : to) {  // splitmix64
    std::uint64_t word = (state += 0x9E3779B97F4A7C15u);
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    each = ((word ^ (word >> 31)) >> 63) != 0 ? 1.0 : -1.0;
  }
}

void check(const ForgettingSettings& settings) {
  const auto positive = [](double value) { return value > 0.0; };
  const auto bounded = [](double value) { return value > 0.0 && value <= 1.0; };
  bool fine = !settings.views.empty() && !settings.ridges.empty() &&
              settings.reference < settings.ridges.size() && !settings.memory.empty() &&
              std::all_of(settings.memory.begin(), settings.memory.end(), bounded) &&
              settings.variance >= 0.0 && settings.rates.size() == settings.weights.size() &&
              std::all_of(settings.ridges.begin(), settings.ridges.end(), positive);
  for (const ForgettingView& view : settings.views) {
    fine = fine && !view.kept.empty() && std::all_of(view.kept.begin(), view.kept.end(), bounded) &&
           !view.deviations.empty() && view.deviations.size() == view.covariances.size() &&
           std::all_of(view.deviations.begin(), view.deviations.end(), positive);
  }
  if (!fine) throw std::invalid_argument("views, ridges and the law of the noise must fit");
}

}  // namespace

ForgettingLeader::ForgettingLeader(std::shared_ptr<const domains::Domain> domain, double radius,
                                   double vector_scale, ForgettingSettings settings)
    : domain_(std::move(domain)),
      vector_scale_(vector_scale),
      settings_(std::move(settings)),
      d_(static_cast<std::size_t>(domain_->dimension())),
      entries_(packed_size(d_) + d_),
      leader_(domain_, radius),
      probe_(domain_, radius),
      center_(d_) {
  check(settings_);
  if (!(vector_scale_ > 0.0)) throw std::invalid_argument("vector_scale must be positive");
  domain_->center(center_);
  const std::size_t learned = settings_.views.size() * settings_.ridges.size();
  const std::size_t candidates = learned > 1 ? learned + 1 : 1;
  sums_.assign(settings_.views.size(), std::vector<double>(entries_));
  decisions_.assign(candidates, center_);
  corrections_.assign(candidates, 0.0);
  excess_ = variances_ = spread_ = shares_ = corrections_;
  shares_[settings_.reference] = 1.0;
  if (chooses()) past_.assign(candidates * settings_.rates.size() * entries_, 0.0);
  quadratic_.resize(entries_);
  difference_.resize(entries_);
  signs_.resize(entries_);
  point_.resize(d_);
}

std::span<double> ForgettingLeader::comparison(std::size_t candidate, std::size_t mode) {
  const std::size_t at = (candidate * settings_.rates.size() + mode) * entries_;
  return std::span(past_).subspan(at, entries_);
}

void ForgettingLeader::compare(std::span<const double> increment) {
  const simd::Kernels& k = simd::kernels();
  const double memory = behind(settings_.memory, pushes_ + 1);
  const std::size_t first = settings_.reference;
  write_quadratic(decisions_[first], vector_scale_, quadratic_);
  for (std::size_t a = 0; a < excess_.size(); ++a) {
    if (a == first) continue;
    write_quadratic(decisions_[a], vector_scale_, difference_);
    for (std::size_t i = 0; i < entries_; ++i) difference_[i] -= quadratic_[i];
    const double estimate = dot(difference_, increment) - (corrections_[a] - corrections_[first]);
    excess_[a] = memory * excess_[a] + estimate;
    double variance = settings_.variance * dot(difference_, difference_);
    for (std::size_t mode = 0; mode < settings_.rates.size(); ++mode) {
      const std::span<double> past = comparison(a, mode);
      variance +=
          2.0 * settings_.weights[mode] * memory * k.dot(difference_.data(), past.data(), entries_);
      const double kept = memory * settings_.rates[mode];
      for (std::size_t i = 0; i < entries_; ++i) past[i] = kept * past[i] + difference_[i];
    }
    variances_[a] = std::max(0.0, memory * memory * variances_[a] + variance);
    spread_[a] = std::sqrt(variances_[a]);
  }
}

// The mean of the derivative along random signs is the divergence.
double ForgettingLeader::probed_correction(std::span<const double> decision, double ridge,
                                           double step) {
  std::copy(decision.begin(), decision.end(), point_.begin());
  probe_.solve(ridge, point_);
  for (std::size_t i = 0; i < d_; ++i) point_[i] = (point_[i] - decision[i]) / step;
  const double* sign = signs_.data();
  double found = 0.0;
  for (std::size_t i = 0; i < d_; ++i) {
    found += *sign++ * decision[i] * point_[i];
    for (std::size_t j = i + 1; j < d_; ++j) {
      found += *sign++ * kSqrtHalf * (decision[i] * point_[j] + decision[j] * point_[i]);
    }
  }
  for (std::size_t i = 0; i < d_; ++i) found -= *sign++ / vector_scale_ * point_[i];
  return 2.0 * found;
}

void ForgettingLeader::lead(std::size_t view) {
  const ForgettingView& own = settings_.views[view];
  const double deviation = behind(own.deviations, pushes_);
  const double covariance = behind(own.covariances, pushes_);
  const double scale = vector_scale_;
  const double step = kStep * deviation;
  leader_.decompose(sums_[view], scale);
  const bool probes = chooses() && !leader_.on_ball();
  if (probes) {
    moved_ = sums_[view];
    for (std::size_t i = 0; i < entries_; ++i) moved_[i] += step * signs_[i];
    probe_.decompose(moved_, scale);
  }
  for (std::size_t r = 0; r < settings_.ridges.size(); ++r) {
    const std::size_t a = view * settings_.ridges.size() + r;
    const double ridge = settings_.ridges[r] * std::sqrt(2.0 * static_cast<double>(d_)) * deviation;
    leader_.solve(ridge, decisions_[a]);
    if (!chooses()) continue;
    if (probes) {
      corrections_[a] = covariance * probed_correction(decisions_[a], ridge, step);
    } else {
      const SteinTerms terms = leader_.stein_terms();
      corrections_[a] = covariance * (terms.matrix - 2.0 * terms.vector / (scale * scale));
    }
  }
}

void ForgettingLeader::weigh() {
  std::vector<double> others = spread_;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(settings_.reference));
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  double median = *middle;
  if (others.size() % 2 == 0) median = 0.5 * (median + *std::max_element(others.begin(), middle));
  if (!(median > 0.0)) {  // without noise, or before the first comparison
    std::fill(shares_.begin(), shares_.end(), 0.0);
    const auto least = std::min_element(excess_.begin(), excess_.end());
    const bool better = *least < 0.0;
    shares_[better ? static_cast<std::size_t>(least - excess_.begin()) : settings_.reference] = 1.0;
    return;
  }
  const double unit = kTemperature * median;
  for (std::size_t a = 0; a < shares_.size(); ++a) {
    shares_[a] = -(excess_[a] + kCaution * spread_[a]) / unit;
  }
  const double best = *std::max_element(shares_.begin(), shares_.end());
  double total = 0.0;
  for (double& share : shares_) total += share = std::exp(share - best);
  for (double& share : shares_) share /= total;
}

void ForgettingLeader::advance(std::span<const double> increment, std::span<double> decision) {
  if (chooses()) compare(increment);
  ++pushes_;
  if (chooses() && !leader_.on_ball()) write_signs(pushes_, signs_);
  for (std::size_t view = 0; view < sums_.size(); ++view) {
    const double kept = behind(settings_.views[view].kept, pushes_);
    for (std::size_t i = 0; i < entries_; ++i) {
      sums_[view][i] = kept * sums_[view][i] + increment[i];
    }
    lead(view);
  }
  if (!chooses()) {
    std::copy(decisions_[0].begin(), decisions_[0].end(), decision.begin());
    return;
  }
  weigh();
  std::fill(point_.begin(), point_.end(), 0.0);
  for (std::size_t a = 0; a < shares_.size(); ++a) {
    for (std::size_t i = 0; i < d_; ++i) point_[i] += shares_[a] * decisions_[a][i];
  }
  domain_->project(point_, decision);  // rounding may leave the domain
}

void ForgettingLeader::write(Archive& archive) const {
  archive.word(pushes_);
  for (const auto& sum : sums_) archive.reals(sum);
  for (const auto& decision : decisions_) archive.reals(decision);
  for (const auto* each : {&corrections_, &excess_, &variances_, &shares_, &past_}) {
    archive.reals(*each);
  }
}

void ForgettingLeader::read(ArchiveReader& archive) {
  pushes_ = archive.word();
  for (auto& sum : sums_) archive.reals(sum);
  for (auto& decision : decisions_) archive.reals(decision);
  for (auto* each : {&corrections_, &excess_, &variances_, &shares_, &past_}) {
    archive.reals(*each);
  }
  constexpr double kTolerance = 1e-6;
  for (const auto& decision : decisions_) {
    if (!domain_->contains(decision, kTolerance)) {
      throw StateError("state holds a decision outside the domain");
    }
  }
  const auto share = [](double value) { return value >= 0.0 && value <= 1.0; };
  const auto variance = [](double value) { return value >= 0.0; };
  if (!std::all_of(shares_.begin(), shares_.end(), share) ||
      !std::all_of(variances_.begin(), variances_.end(), variance)) {
    throw StateError("state holds impossible weights");
  }
  std::transform(variances_.begin(), variances_.end(), spread_.begin(),
                 [](double each) { return std::sqrt(each); });
}

}  // namespace dpoco::oco
