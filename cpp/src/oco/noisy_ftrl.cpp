#include "dpoco/oco/noisy_ftrl.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr double kSqrtTwo = 1.41421356237309504880;

// Products of the clipped features round a few times more than the features themselves; this keeps
// the exact norm of the statistics inside the declared one.
constexpr double kShrink = 1.0 - 16.0 * std::numeric_limits<double>::epsilon();

// As in mechanisms/continual_sum.cpp: as many short rounds at once as stay in the cache.
constexpr std::size_t kBlockEntries = 2048;

// x: the clipped features. Products of clipped entries only: a product of bounds first would lose
// its precision where the clipping factor is tiny.
// add(entry) takes them in their order.
template <class Add>
void add_quadratic(const double* x, double y, double vector_scale, std::size_t n, Add add) {
  for (std::size_t i = 0; i < n; ++i) {
    add(x[i] * x[i]);
    const double factor = kSqrtTwo * x[i];
    for (std::size_t j = i + 1; j < n; ++j) add(factor * x[j]);
  }
  const double factor = vector_scale * y;
  for (std::size_t i = 0; i < n; ++i) add(factor * x[i]);
}

void add_scaled(double factor, const double* x, std::size_t n, double* to, double* rest) {
  const simd::Kernels& k = simd::kernels();
  if (rest == nullptr) {
    k.axpy(factor, x, n, to);
  } else {
    k.accumulate(factor, x, n, to, rest);
  }
}

}  // namespace

std::size_t NoisyFtrl::sum_dimension(std::size_t dimension, Statistics statistics) noexcept {
  return statistics == Statistics::gradient ? dimension : packed_size(dimension) + dimension;
}

NoisyFtrl::NoisyFtrl(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
                     losses::RecordClipper clipper, NoisyFtrlSettings settings,
                     mechanisms::ContinualSum sum)
    : domain_(std::move(domain)),
      loss_(loss),
      clipper_(std::move(clipper)),
      settings_(settings),
      sum_(std::move(sum)) {
  if (settings_.horizon < 1 || settings_.batch < 1) {
    throw std::invalid_argument("horizon and batch must be at least 1");
  }
  if (!(settings_.step_size > 0.0)) throw std::invalid_argument("step_size must be positive");
  const auto d = static_cast<std::size_t>(domain_->dimension());
  const std::size_t entries = sum_dimension(d, settings_.statistics);
  if (static_cast<std::size_t>(sum_.dimension()) != entries) {
    throw std::invalid_argument("the sum must have the dimension of the statistics");
  }
  if (settings_.statistics == Statistics::quadratic) {
    if (loss_.kind != losses::GlmKind::squared) {
      throw std::invalid_argument("quadratic statistics describe the squared loss only");
    }
    if (!(settings_.vector_scale > 0.0)) {
      throw std::invalid_argument("vector_scale must be positive");
    }
    leader_.emplace(domain_, loss_.weight, settings_.step_size, settings_.domain_radius);
  }
  center_.assign(d, 0.0);
  domain_->center(center_.data());
  theta_ = center_;
  target_ = center_;
  previous_ = center_;
  row_.assign(d, 0.0);
  clipped_.assign(d, 0.0);
  leaf_.assign(entries, 0.0);
  leaf_rest_.assign(entries, 0.0);
  released_.assign(entries, 0.0);
}

void NoisyFtrl::decision(double* out) const {
  const auto entry = exclusive_.enter();
  std::copy(theta_.begin(), theta_.end(), out);
}

// Were a record to change between the reading of its norm and its use, the clipping would be void.
const double* NoisyFtrl::own_copy(const double* record) {
  std::copy(record, record + row_.size(), row_.data());
  return row_.data();
}

// A batch of one round is its leaf: no sum, nothing to lose.
double* NoisyFtrl::rest() noexcept { return settings_.batch > 1 ? leaf_rest_.data() : nullptr; }

double NoisyFtrl::add_leaf(const double* at, const double* features, double label, double* to,
                           double* rest) const {
  const simd::Kernels& k = simd::kernels();
  const auto d = static_cast<std::size_t>(dimension());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * k.dot(at, features, d);
  if (leader_) {
    double* clipped = clipped_.data();
    for (std::size_t i = 0; i < d; ++i) clipped[i] = (multiplier * features[i]) * kShrink;
    if (rest == nullptr) {
      add_quadratic(clipped, y, settings_.vector_scale, d, [&](double entry) { *to++ += entry; });
    } else {
      add_quadratic(clipped, y, settings_.vector_scale, d,
                    [&](double entry) { add_compensated(entry, *to++, *rest++); });
    }
    return loss_.value(margin, y);
  }
  const double bound = settings_.scalar_bound;
  const double slope = loss_.derivative(margin, y);
  const double scalar = std::isfinite(slope) ? std::clamp(slope, -bound, bound) : 0.0;
  const double factor = scalar * multiplier;
  // A subnormal factor is too coarse: rounding up could carry the leaf over its bound.
  if (std::fabs(factor) >= std::numeric_limits<double>::min()) {
    add_scaled(factor, features, d, to, rest);
  }
  return loss_.value(margin, y);
}

double NoisyFtrl::clip(double* row) const {
  const std::size_t d = theta_.size();
  const double multiplier = clipper_.multiplier(row);
  if (multiplier == 0.0) {
    std::fill(row, row + d, 0.0);  // it may hold a NaN
  } else if (multiplier != 1.0) {
    for (std::size_t i = 0; i < d; ++i) row[i] *= multiplier;
  }
  return multiplier;
}

double NoisyFtrl::add_gradient(const double* gradient) {
  const simd::Kernels& k = simd::kernels();
  own_copy(gradient);
  clip(row_.data());
  add_scaled(1.0, row_.data(), leaf_.size(), leaf_.data(), rest());
  return k.dot(theta_.data(), row_.data(), theta_.size());
}

void NoisyFtrl::leaf(const double* at, const double* features, double label, double* out) const {
  std::fill(out, out + leaf_.size(), 0.0);
  add_leaf(at, features, label, out, nullptr);
}

void NoisyFtrl::lead(const double* released) {
  const std::size_t d = theta_.size();
  previous_ = theta_;
  if (leader_) {
    leader_->minimize(released, settings_.vector_scale, theta_.data());
  } else {
    const double eta = settings_.step_size;
    for (std::size_t i = 0; i < d; ++i) target_[i] = center_[i] - eta * released[i];
    domain_->project(target_.data(), theta_.data());
  }
  moved_ = previous_ != theta_;  // by value: a projection may turn 0 into -0
}

void NoisyFtrl::finish_round() {
  round_ = round_ + 1;
  moved_ = false;
  if (++pending_ < settings_.batch) return;
  pending_ = 0;
  sum_.push(leaf_.data(), released_.data());
  std::fill(leaf_.begin(), leaf_.end(), 0.0);
  if (settings_.batch > 1) std::fill(leaf_rest_.begin(), leaf_rest_.end(), 0.0);
  lead(released_.data());
}

void NoisyFtrl::require(std::uint64_t rounds) const {
  if (rounds > settings_.horizon - round_) {
    throw HorizonExceeded("the declared horizon is used up");
  }
  sum_.source().check_process();
}

void NoisyFtrl::require_turn(std::uint64_t decided) const {
  require(1);
  if (decided != round_) throw RoundOrderError("decide() and observe() alternate");
}

void NoisyFtrl::observe(std::uint64_t decided, const double* features, double label) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  add_leaf(theta_.data(), own_copy(features), label, leaf_.data(), rest());
  finish_round();
}

void NoisyFtrl::observe_gradient(std::uint64_t decided, const double* gradient) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  if (leader_) throw std::invalid_argument("quadratic statistics need features and labels");
  add_gradient(gradient);
  finish_round();
}

// Gradients of linear losses do not depend on decisions: all sums of a block come first.
void NoisyFtrl::run_linear(const double* gradients, std::uint64_t rounds, double* losses,
                           double* decisions, std::uint8_t* changed) {
  const simd::Kernels& k = simd::kernels();
  const std::size_t d = theta_.size();
  const std::size_t most = std::max<std::size_t>(1, kBlockEntries / d);
  rows_.resize(most * d);
  sums_.resize(most * d);
  for (std::uint64_t t = 0; t < rounds;) {
    const std::size_t count = std::min<std::uint64_t>(most, rounds - t);
    std::copy(gradients + t * d, gradients + (t + count) * d, rows_.data());
    for (std::size_t r = 0; r < count; ++r) clip(rows_.data() + r * d);
    sum_.run(sum_.enter(), rows_.data(), count, sums_.data());
    for (std::size_t r = 0; r < count; ++r, ++t) {
      if (decisions != nullptr) std::copy(theta_.begin(), theta_.end(), decisions + t * d);
      if (losses != nullptr) losses[t] = k.dot(theta_.data(), rows_.data() + r * d, d);
      lead(sums_.data() + r * d);
      if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
    }
    round_ = round_ + count;
  }
}

void NoisyFtrl::run(const Exclusive::Entry&, const double* features, const double* labels,
                    std::uint64_t rounds, double* losses, double* decisions,
                    std::uint8_t* changed) {
  require(rounds);
  const std::size_t d = theta_.size();
  const bool linear = labels == nullptr;
  if (linear && leader_) {
    throw std::invalid_argument("quadratic statistics need features and labels");
  }
  if (linear && settings_.batch == 1) {
    return run_linear(features, rounds, losses, decisions, changed);
  }
  for (std::uint64_t t = 0; t < rounds; ++t, features += d) {
    if (decisions != nullptr) std::copy(theta_.begin(), theta_.end(), decisions + t * d);
    const double loss =
        linear ? add_gradient(features)
               : add_leaf(theta_.data(), own_copy(features), labels[t], leaf_.data(), rest());
    if (losses != nullptr) losses[t] = loss;
    finish_round();
    if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
  }
}

void NoisyFtrl::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  archive.reals(theta_.data(), theta_.size());
  archive.reals(leaf_.data(), leaf_.size());
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  sum_.write(archive);
}

void NoisyFtrl::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(settings_.horizon + 1);
  pending_ = round % settings_.batch;
  archive.reals(theta_.data(), theta_.size());
  archive.reals(leaf_.data(), leaf_.size());
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  sum_.read(archive);
  round_ = round;
  constexpr double kTolerance = 1e-6;
  if (sum_.round() != round / settings_.batch) throw StateError("state holds an impossible round");
  if (!domain_->contains(theta_.data(), kTolerance) ||
      !are_rests(leaf_.data(), leaf_rest_.data(), leaf_.size())) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::oco
