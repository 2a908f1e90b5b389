#include "dpoco/experts/prefix_hedge.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/samplers/categorical.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::experts {
namespace {

// As in mechanisms/continual_sum.cpp: the learner processes as many short rounds at once as fit
// into the cache.
constexpr std::size_t kBlockEntries = 2048;

}  // namespace

PrefixHedge::PrefixHedge(ExpertSettings settings, double learning_rate,
                         mechanisms::ContinualSum sum, std::shared_ptr<LinearTransform> transform)
    : ExpertLearner(settings, nullptr),
      range_(settings.range),
      rate_(learning_rate),
      sum_(std::move(sum)),
      transform_(std::move(transform)),
      scores_(settings.experts, 0.0),
      weights_(settings.experts, 1.0) {
  if (!(rate_ > 0.0) || !std::isfinite(rate_)) {
    throw std::invalid_argument("learning_rate must be positive and finite");
  }
  const auto n = static_cast<std::size_t>(experts());
  const auto entries = static_cast<std::size_t>(sum_.dimension());
  if (transform_ && transform_->inputs() != n) {
    throw std::invalid_argument("the transform must take one entry an expert");
  }
  if (entries != (transform_ ? transform_->outputs() : n)) {
    throw std::invalid_argument("the sum must have the dimension of what a round adds");
  }
  if (sum_.horizon() < horizon() - 1) {
    throw std::invalid_argument("the sum must last for all rounds but the last");
  }
  block_ = std::max<std::size_t>(1, kBlockEntries / std::max(n, entries));
  admitted_.assign(n, 0.0);
  rows_.assign(entries, 0.0);
  sums_.assign(entries, 0.0);
  weigh();
  draw();
}

// No decision follows the last round, and a single expert needs no decisions.
std::uint64_t PrefixHedge::pushes_after(std::uint64_t rounds) const noexcept {
  return experts() == 1 ? 0 : std::min(rounds, horizon() - 1);
}

void PrefixHedge::admit(std::span<const double> losses, std::span<double> to) {
  if (transform_) {
    std::ranges::copy(losses, to.begin());
  } else {
    ExpertLearner::admit(losses, to);
  }
}

// Writes a round's contribution to the sum, and returns how many entries the transform changed.
// Subtracts the mean, so that neighbouring rows differ by no more than they do up to a common
// shift. The softmax would also remove the shift, but only after the sum has been rounded to a grid
// entry by entry.
std::uint64_t PrefixHedge::add(std::span<const double> admitted, std::span<double> row) {
  if (transform_) return transform_->apply(admitted, row);
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = scores_.size();
  assert(admitted.size() == n && row.size() == n);
  const double mean = k.sum(admitted.data(), n) / static_cast<double>(n);
  k.affine(1.0, admitted.data(), -mean, n, row.data());
  return 0;
}

void PrefixHedge::weigh() {
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = scores_.size();
  const double least = k.smallest(scores_.data(), n);
  total_ = k.tilt(nullptr, scores_.data(), least, rate_, n, weights_.data());
}

void PrefixHedge::draw() {
  if (experts() == 1) return;
  set_decision(samplers::draw_by_scan(source().uniform(), weights_, total_));
}

void PrefixHedge::decide(std::span<const double> released) {
  if (transform_) {
    transform_->invert(released, scores_);
  } else {
    std::ranges::copy(released, scores_.begin());
  }
  weigh();
  draw();
}

void PrefixHedge::learn(std::span<const double> losses) {
  const auto entries = static_cast<std::size_t>(sum_.dimension());  // longer runs need more rows
  const std::span<double> row = std::span(rows_).first(entries);
  const std::span<double> sums = std::span(sums_).first(entries);
  count_violations(add(losses, row));
  if (pushes_after(round() + 1) == sum_.round()) return;
  sum_.push(row, sums);
  decide(sums);
}

// The losses do not depend on decisions, so all sums of a block come first. The uniforms of
// decisions and the noise of the sum are different variates of the source, so their order does not
// matter.
void PrefixHedge::play(std::span<const double> losses, std::span<double> own_losses,
                       std::span<std::int64_t> decisions) {
  const std::size_t n = scores_.size();
  const auto entries = static_cast<std::size_t>(sum_.dimension());
  // Only long runs need larger buffers. A learner that plays round by round needs one row of each.
  const std::size_t most = std::min(block_, decisions.size());
  if (admitted_.size() < most * n) {
    rows_.resize(most * entries);
    sums_.resize(most * entries);
    admitted_.resize(most * n);  // last, because its size stands for all three
  }
  const std::span<double> rows(rows_);
  const std::span<double> sums(sums_);
  while (!decisions.empty()) {
    const std::size_t count = std::min(block_, decisions.size());
    for (std::size_t r = 0; r < count; ++r) {
      const std::span<double> admitted = std::span(admitted_).subspan(r * n, n);
      admit(losses.subspan(r * n, n), admitted);
      count_violations(add(admitted, rows.subspan(r * entries, entries)));
    }
    const std::size_t pushes = pushes_after(round() + count) - sum_.round();
    if (pushes > 0)
      sum_.run(sum_.enter(), rows.first(pushes * entries), sums.first(pushes * entries));
    for (std::size_t r = 0; r < count; ++r) {
      own_losses[r] = admitted_[r * n + current()];
      decisions[r] = static_cast<std::int64_t>(current());
      if (r < pushes) decide(sums.subspan(r * entries, entries));
    }
    count_rounds(count);
    losses = losses.subspan(count * n);
    own_losses = own_losses.subspan(count);
    decisions = decisions.subspan(count);
  }
}

void PrefixHedge::weights(std::span<double> out) const {
  assert(out.size() == weights_.size());
  const auto entry = enter();
  for (std::size_t i = 0; i < weights_.size(); ++i) out[i] = weights_[i] / total_;
}

void PrefixHedge::leaf(std::span<const double> losses, std::span<double> out) {
  assert(losses.size() == scores_.size() && std::ssize(out) == sum_.dimension());
  const auto entry = enter();
  if (transform_) {
    transform_->apply(losses, out);
    return;
  }
  const std::span<double> admitted = std::span(admitted_).first(scores_.size());
  simd::kernels().admit_losses(losses.data(), losses.size(), range_.low, range_.high,
                               1.0 / (range_.high - range_.low), admitted.data());
  add(admitted, out);
}

void PrefixHedge::write_own(Archive& archive) const {
  archive.reals(scores_);
  sum_.write(archive);
}

void PrefixHedge::read_own(ArchiveReader& archive) {
  archive.reals(scores_);
  sum_.read(archive);
  const std::uint64_t pushes = pushes_after(round());
  const std::uint64_t draws = experts() == 1 ? 0 : pushes + 1;
  if (sum_.round() != pushes || source().position(random::Variate::uniform) != draws) {
    throw StateError("state holds an impossible round");
  }
  const bool possible = std::all_of(scores_.begin(), scores_.end(), [pushes](double score) {
    return pushes == 0 ? score == 0.0 : std::isfinite(score);
  });
  if (!possible) throw StateError("state holds impossible scores");
  weigh();
  // Differences of extremely large scores may overflow.
  if (!std::isfinite(total_) || !(weights_[current()] > 0.0))
    throw StateError("state holds an impossible decision");
}

}  // namespace dpoco::experts
