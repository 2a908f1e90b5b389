#include "dpoco/local/hedge.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {
namespace {

// Sums of weights below this may have lost digits to underflow.
constexpr double kReliable = 1e-280;

}  // namespace

Hedge::Hedge(std::size_t hypotheses, double fixed_rate)
    : fixed_rate_(fixed_rate),
      log_count_(elementary::log(static_cast<double>(std::max<std::size_t>(hypotheses, 1)))),
      losses_(hypotheses, 0.0),
      weights_(hypotheses, 0.0),
      estimate_(hypotheses, 0.0),
      scratch_(hypotheses, 0.0) {
  if (hypotheses < 1) throw std::invalid_argument("hypotheses must be at least 1");
  if (!(fixed_rate >= 0.0) || !std::isfinite(fixed_rate)) {
    throw std::invalid_argument("rate must be finite and not negative");
  }
  refresh();
}

double Hedge::rate() const noexcept {
  if (fixed_rate_ > 0.0) return fixed_rate_;
  return spread_ > 0.0 ? log_count_ / spread_ : std::numeric_limits<double>::infinity();
}

void Hedge::refresh() noexcept {
  const std::size_t n = losses_.size();
  const simd::Kernels& k = simd::kernels();
  const double least = k.smallest(losses_.data(), n);
  const double now = rate();
  double total = 0.0;
  if (now <= std::numeric_limits<double>::max()) {
    total = k.tilt(nullptr, losses_.data(), least, now, n, weights_.data());
  } else {
    for (std::size_t j = 0; j < n; ++j) {
      weights_[j] = losses_[j] <= least ? 1.0 : 0.0;
      total += weights_[j];
    }
  }
  const double inverse = 1.0 / total;  // total >= 1: the leader has weight 1
  for (std::size_t j = 0; j < n; ++j) weights_[j] *= inverse;
}

void Hedge::raise_start(double start) {
  if (!(start >= 0.0) || !std::isfinite(start)) {
    throw std::invalid_argument("start must be finite and not negative");
  }
  if (start <= start_) return;
  spread_ += start - start_;
  start_ = start;
  refresh();
}

// -(1/rate) log sum_j w_j exp(-rate estimate_j), shifted by `low`, the smallest estimate of
// positive weight.
double Hedge::mix_loss(double low) noexcept {
  const std::size_t n = losses_.size();
  const double now = rate();
  if (!(now <= std::numeric_limits<double>::max())) return low;
  const simd::Kernels& k = simd::kernels();
  const double total = k.tilt(weights_.data(), estimate_.data(), low, now, n, scratch_.data());
  if (total > kReliable) return low - elementary::log(total) / now;
  // The smallest estimate has a tiny weight. In terms of cumulative losses no sum vanishes.
  const double before = k.smallest(losses_.data(), n);
  const double old_sum = k.tilt(nullptr, losses_.data(), before, now, n, scratch_.data());
  for (std::size_t j = 0; j < n; ++j) scratch_[j] = losses_[j] + estimate_[j];
  const double after = k.smallest(scratch_.data(), n);
  const double new_sum = k.tilt(nullptr, scratch_.data(), after, now, n, scratch_.data());
  return (after - before) - (elementary::log(new_sum) - elementary::log(old_sum)) / now;
}

void Hedge::add(std::span<const double> estimate) {
  const std::size_t n = losses_.size();
  assert(estimate.size() == n);
  double low = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < n; ++j) {
    const double value = estimate[j];
    estimate_[j] = value - value == 0.0 ? value : 0.0;
    low = weights_[j] > 0.0 && estimate_[j] < low ? estimate_[j] : low;
  }
  const double expected = simd::dot(weights_, estimate_);
  const double gap = std::max(expected - mix_loss(low), 0.0);
  gaps_ += gap;
  if (fixed_rate_ == 0.0) spread_ += gap;
  for (std::size_t j = 0; j < n; ++j) losses_[j] += estimate_[j];
  ++reports_;
  refresh();
}

void Hedge::add_coordinate(std::size_t index, std::span<const double> middle, double scale,
                           std::span<const std::int64_t> bits) {
  if (index >= losses_.size()) throw std::invalid_argument("index is out of range");
  for (const std::int64_t bit : bits) {
    if (bit != 0 && bit != 1) throw std::invalid_argument("a bit must be 0 or 1");
  }
  std::vector<double> estimate(middle.begin(), middle.end());
  for (const std::int64_t bit : bits) {
    estimate[index] = middle[index] + (bit == 1 ? scale : -scale);
    add(estimate);
  }
}

void Hedge::write(Archive& archive) const {
  archive.word(reports_);
  archive.real(start_);
  archive.real(spread_);
  archive.real(gaps_);
  archive.reals(losses_);
}

void Hedge::read(ArchiveReader& archive) {
  const std::uint64_t reports = archive.word();
  const double start = archive.real();
  const double spread = archive.real();
  const double gaps = archive.real();
  std::vector<double> losses(losses_.size());
  archive.reals(losses);
  const bool possible =
      std::isfinite(start) && std::isfinite(spread) && std::isfinite(gaps) && start >= 0.0 &&
      spread >= start && gaps >= 0.0 &&
      std::all_of(losses.begin(), losses.end(), [](double value) { return std::isfinite(value); });
  if (!possible) throw StateError("state holds impossible losses");
  reports_ = reports;
  start_ = start;
  spread_ = spread;
  gaps_ = gaps;
  losses_ = std::move(losses);
  refresh();
}

}  // namespace dpoco::local
