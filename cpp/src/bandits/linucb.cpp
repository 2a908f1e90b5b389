#include "dpoco/bandits/linucb.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::bandits {
namespace {

// The products of clipped contexts carry a few more rounding errors than the contexts themselves.
// This factor keeps the exact norm of the statistics within the declared bound.
constexpr double kShrink = 1.0 - 16.0 * std::numeric_limits<double>::epsilon();

}  // namespace

std::size_t LinUcb::sum_dimension(std::uint64_t arms, std::size_t dimension) noexcept {
  return static_cast<std::size_t>(arms) * (packed_size(dimension) + dimension);
}

LinUcb::LinUcb(BanditSettings settings, losses::RecordClipper clipper, LinUcbSettings own,
               mechanisms::ContinualSum sum)
    : BanditLearner(settings, std::move(clipper)),
      own_(own),
      sum_(std::move(sum)),
      entries_(packed_size(dimension()) + dimension()) {
  const std::size_t d = dimension();
  if (own_.batch < 1) throw std::invalid_argument("batch must be at least 1");
  if (!(own_.kept > 0.0) || own_.kept > 1.0) {
    throw std::invalid_argument("kept must be in (0, 1]");
  }
  if (own_.exact && (own_.batch != 1 || forgets())) {
    throw std::invalid_argument("exact needs batch 1");
  }
  if (!(own_.reward_weight > 0.0) || !(own_.shift > 0.0) || !std::isfinite(own_.shift)) {
    throw std::invalid_argument("reward_weight and shift must be positive");
  }
  if (static_cast<std::size_t>(sum_.dimension()) != sum_dimension(arms(), d)) {
    throw std::invalid_argument("the sum must have the dimension of the statistics");
  }
  if (sum_.horizon() < releases_after(horizon())) {
    throw std::invalid_argument("the sum must have room for all releases");
  }
  const std::size_t all = static_cast<std::size_t>(arms()) * entries_;
  leaf_.assign(all, 0.0);
  rest_.assign(all, 0.0);
  released_.assign(all, 0.0);
  if (forgets()) total_ = before_ = released_;
  row_.assign(entries_, 0.0);
  coefficients_.assign(static_cast<std::size_t>(arms()) * d, 0.0);
  white_.assign(d, 0.0);
  factors_.assign(static_cast<std::size_t>(arms()), oco::CholeskyFactor(static_cast<Index>(d)));
  estimate();
}

// No decision depends on the vector of the last round, so it is not pushed.
std::uint64_t LinUcb::releases_after(std::uint64_t rounds) const noexcept {
  return std::min(rounds, horizon() - 1) / own_.batch;
}

// Only clipped entries are multiplied: a product of bounds would lose its precision if the clipping
// factor is tiny. Off-diagonal entries carry a factor sqrt(2), so that the norm of the packed
// matrix is its Frobenius norm.
void LinUcb::statistics(Context context, double reward, std::span<double> to) const {
  assert(to.size() == entries_);
  const std::size_t d = dimension();
  std::size_t at = 0;
  for (std::size_t i = 0; i < d; ++i) {
    const double own = context[i] * kShrink;
    to[at++] = own * own;
    const double factor = (kSqrtTwo * own) * kShrink;
    for (std::size_t j = i + 1; j < d; ++j) to[at++] = factor * context[j];
  }
  const double factor = (own_.reward_weight * reward) * kShrink;
  for (std::size_t i = 0; i < d; ++i) to[at++] = factor * context[i];
}

void LinUcb::leaf(std::uint64_t arm, Context context, double reward, std::span<double> out) const {
  std::ranges::fill(out, 0.0);
  statistics(context, reward, out.subspan(static_cast<std::size_t>(arm) * entries_, entries_));
}

// This function reads only released values, so its running time and its failures may depend on
// them.
void LinUcb::factor(std::uint64_t arm) {
  const std::size_t d = dimension();
  const auto index = static_cast<std::size_t>(arm);
  const double* packed = released_.data() + index * entries_;
  oco::CholeskyFactor& cholesky = factors_[index];
  const auto scale = simd::kernels().scale;
  // At the confidence level of the regret bound the first shift suffices.
  double shift = own_.shift;
  for (;;) {
    const double* from = packed;
    double* row = cholesky.entries().data();
    for (std::size_t i = 0; i < d; from += d - i, ++i, row += d) {
      row[i] = from[0] + shift;
      scale(kSqrtHalf, from + 1, d - i - 1, row + i + 1);
    }
    if (cholesky.compute(cholesky.entries())) break;
    shift *= 2.0;  // ends soon: sums stay far below the largest double, see `read_own`
    if (!std::isfinite(shift)) throw StateError("the released statistics cannot be solved");
  }
  solve(arm);
}

void LinUcb::solve(std::uint64_t arm) {
  const std::size_t d = dimension();
  const auto index = static_cast<std::size_t>(arm);
  const double* vector = released_.data() + index * entries_ + packed_size(d);
  const double inverse = 1.0 / own_.reward_weight;
  for (std::size_t i = 0; i < d; ++i) white_[i] = vector[i] * inverse;
  factors_[index].solve(white_, std::span(coefficients_).subspan(index * d, d));
}

void LinUcb::widen() {
  auto count = static_cast<double>(sum_.round() * own_.batch);
  if (forgets()) count = std::min(count, static_cast<double>(own_.batch) / (1.0 - own_.kept));
  const double information =
      own_.log_term + static_cast<double>(dimension()) * elementary::log(1.0 + count * own_.growth);
  width_ = own_.exploration * (own_.spread * std::sqrt(information) + own_.bias);
}

void LinUcb::estimate() {
  widen();
  for (std::uint64_t arm = 0; arm < arms(); ++arm) factor(arm);
}

std::uint64_t LinUcb::advise_among(Context context, Mask allowed) {
  assert(allowed.empty() || allowed.size() == arms());
  const std::size_t d = dimension();
  std::uint64_t best = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::uint64_t arm = 0; arm < arms(); ++arm) {
    const auto index = static_cast<std::size_t>(arm);
    if (!allowed.empty() && allowed[index] == 0) continue;
    factors_[index].whiten(context, white_);
    const double spread = std::sqrt(simd::dot(white_, white_));
    const double score =
        simd::dot(std::span(coefficients_).subspan(index * d, d), context) + width_ * spread;
    if (score > highest) {
      highest = score;
      best = arm;
    }
  }
  return best;
}

void LinUcb::learn(std::uint64_t arm, Context context, double reward) {
  if (!context.empty()) {
    statistics(context, reward, row_);
    const std::size_t at = static_cast<std::size_t>(arm) * entries_;
    for (std::size_t i = 0; i < entries_; ++i) {
      add_compensated(row_[i], leaf_[at + i], rest_[at + i]);
    }
  }
  if (releases_after(round() + 1) == sum_.round()) return;
  if (forgets()) {
    before_.swap(total_);
    sum_.push(leaf_, total_);
    for (std::size_t i = 0; i < total_.size(); ++i) {
      released_[i] = own_.kept * released_[i] + (total_[i] - before_[i]);
    }
  } else {
    sum_.push(leaf_, released_);
  }
  std::fill(leaf_.begin(), leaf_.end(), 0.0);
  std::fill(rest_.begin(), rest_.end(), 0.0);
  if (!own_.exact) return estimate();
  widen();
  if (context.empty()) return;
  for (std::size_t i = 0; i < dimension(); ++i) white_[i] = context[i] * kShrink;
  factors_[static_cast<std::size_t>(arm)].update(1.0, white_);
  solve(arm);
}

void LinUcb::coefficients(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(coefficients_, out.begin());
}

void LinUcb::released(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(forgets() ? total_ : released_, out.begin());
}

void LinUcb::write_own(Archive& archive) const {
  archive.reals(leaf_, rest_, released_);
  if (forgets()) archive.reals(total_);
  sum_.write(archive);
  if (!own_.exact) return;
  for (const oco::CholeskyFactor& cholesky : factors_) {
    archive.reals(cholesky.entries());
  }
}

void LinUcb::read_own(ArchiveReader& archive) {
  archive.reals(leaf_, rest_, released_);
  if (forgets()) archive.reals(total_);
  sum_.read(archive);
  const std::uint64_t releases = releases_after(round());
  if (sum_.round() != releases) throw StateError("state holds an impossible round");
  const auto zero = [](double value) { return value == 0.0; };
  // Bounds on contexts and rewards, at most 1e30, and on rounds keep all sums far below this.
  const auto finite = [](double value) { return std::fabs(value) < 1e200; };
  const bool fresh = round() == releases * own_.batch;
  bool possible = std::all_of(released_.begin(), released_.end(), finite) &&
                  std::all_of(leaf_.begin(), leaf_.end(), finite) &&
                  std::all_of(total_.begin(), total_.end(), finite) &&
                  (releases > 0 || std::all_of(released_.begin(), released_.end(), zero)) &&
                  (!fresh || std::all_of(leaf_.begin(), leaf_.end(), zero)) &&
                  are_rests(leaf_, rest_);
  if (!possible) throw StateError("state holds impossible statistics");
  if (!own_.exact) return estimate();
  widen();
  for (std::uint64_t arm = 0; arm < arms(); ++arm) {
    std::vector<double>& entries = factors_[static_cast<std::size_t>(arm)].entries();
    archive.reals(entries);
    for (std::size_t i = 0; i < dimension(); ++i) {
      if (!(entries[i * dimension() + i] > 0.0)) possible = false;
    }
    if (!possible || !std::all_of(entries.begin(), entries.end(), finite)) {
      throw StateError("state holds impossible factors");
    }
    solve(arm);
  }
}

}  // namespace dpoco::bandits
