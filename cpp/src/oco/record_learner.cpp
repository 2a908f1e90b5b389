#include "dpoco/oco/record_learner.hpp"

#include <cassert>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

// Many short records are copied at once, because reading a copy that has not reached the cache yet
// is slow.
constexpr std::uint64_t kBlockEntries = 2048;

}  // namespace

RecordLearner::RecordLearner(Index dimension, std::uint64_t horizon)
    : Rounds(horizon),
      decision_(static_cast<std::size_t>(dimension), 0.0),
      dimension_(dimension),
      rows_(simd::padded(decision_.size()), 0.0) {
  row_ = rows_;
}

void RecordLearner::decision(std::span<double> out) const {
  assert(std::ssize(out) == dimension_);
  const auto entry = enter();
  require_whole();
  std::copy_n(decision_.begin(), dimension_, out.begin());
}

void RecordLearner::observe(std::uint64_t decided, std::span<const double> features, double label) {
  assert(std::ssize(features) == dimension_);
  play_turn(decided, [&] {
    copy_records(features);
    admit(label, false);
  });
}

void RecordLearner::observe_gradient(std::uint64_t decided, std::span<const double> gradient) {
  assert(std::ssize(gradient) == dimension_);
  play_turn(decided, [&] {
    copy_records(gradient);
    admit(std::nullopt, false);
  });
}

void RecordLearner::copy_records(std::span<const double> records) {
  const std::size_t d = static_cast<std::size_t>(dimension_), width = simd::padded(d);
  const std::size_t count = records.size() / d;
  if (rows_.size() < count * width) rows_.resize(count * width, 0.0);
  for (std::size_t r = 0; r < count; ++r) {
    std::ranges::copy(records.subspan(r * d, d), rows_.data() + r * width);
  }
  row_ = std::span(rows_).first(width);
}

void RecordLearner::run(const Exclusive::Entry&, std::span<const double> features,
                        std::span<const double> labels, std::span<double> losses,
                        std::span<double> decisions, std::span<std::uint8_t> changed) {
  const auto d = static_cast<std::size_t>(dimension_);
  const std::size_t rounds = features.size() / d;
  [[maybe_unused]] const auto fits = [](std::size_t size, std::size_t n) {
    return size == 0 || size == n;
  };
  assert(features.size() == rounds * d && fits(labels.size(), rounds) &&
         fits(losses.size(), rounds) && fits(decisions.size(), rounds * d) &&
         fits(changed.size(), rounds));
  require(rounds);
  if (rounds == 0) return;
  play(features, labels, losses, decisions, changed);
}

void RecordLearner::play(std::span<const double> features, std::span<const double> labels,
                         std::span<double> losses, std::span<double> decisions,
                         std::span<std::uint8_t> changed) {
  const auto d = static_cast<std::size_t>(dimension_);
  const std::size_t rounds = features.size() / d;
  std::size_t copied = 0;
  for (std::size_t t = 0; t < rounds; ++t) {
    if (t == copied) {
      const std::size_t most = std::max<std::size_t>(1, kBlockEntries / d);
      copied = std::min(rounds, t + most);
      copy_records(features.subspan(t * d, (copied - t) * d));
    } else {
      row_ = {row_.data() + row_.size(), row_.size()};
    }
    if (!decisions.empty()) std::copy_n(decision_.begin(), d, decisions.data() + t * d);
    const auto label = labels.empty() ? std::nullopt : std::optional(labels[t]);
    const double loss = admit(label, !losses.empty());
    if (!losses.empty()) losses[t] = loss;
    finish_round();
    if (!changed.empty()) changed[t] = moved_ ? 1 : 0;
  }
}

}  // namespace dpoco::oco
