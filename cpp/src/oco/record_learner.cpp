#include "dpoco/oco/record_learner.hpp"

#include <cassert>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

// Many short records are copied at once: a copy that is still on its way to the cache is read
// slowly.
constexpr std::uint64_t kBlockEntries = 2048;

}  // namespace

RecordLearner::RecordLearner(Index dimension, std::uint64_t horizon)
    : Rounds(horizon),
      decision_(static_cast<std::size_t>(dimension), 0.0),
      dimension_(dimension),
      rows_(simd::padded(decision_.size()), 0.0) {
  row_ = rows_.data();
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
    copy_records(features.data(), 1);
    admit(row_, &label, false);
  });
}

void RecordLearner::observe_gradient(std::uint64_t decided, std::span<const double> gradient) {
  assert(std::ssize(gradient) == dimension_);
  play_turn(decided, [&] {
    copy_records(gradient.data(), 1);
    admit(row_, nullptr, false);
  });
}

void RecordLearner::copy_records(const double* records, std::uint64_t count) {
  const std::size_t d = static_cast<std::size_t>(dimension_), width = simd::padded(d);
  if (rows_.size() < count * width) rows_.resize(count * width, 0.0);
  row_ = rows_.data();
  for (std::uint64_t r = 0; r < count; ++r) std::copy_n(records + r * d, d, row_ + r * width);
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
  const auto given = [](auto entries) { return entries.empty() ? nullptr : entries.data(); };
  play(features.data(), given(labels), rounds, given(losses), given(decisions), given(changed));
}

void RecordLearner::play(const double* features, const double* labels, std::uint64_t rounds,
                         double* losses, double* decisions, std::uint8_t* changed) {
  const auto d = static_cast<std::size_t>(dimension_);
  std::uint64_t copied = 0;
  for (std::uint64_t t = 0; t < rounds; ++t) {
    if (t == copied) {
      const std::uint64_t most = std::max<std::uint64_t>(1, kBlockEntries / d);
      copied = std::min(rounds, t + most);
      copy_records(features + t * d, copied - t);
    } else {
      row_ += simd::padded(d);
    }
    if (decisions != nullptr) std::copy_n(decision_.begin(), d, decisions + t * d);
    const double label = labels == nullptr ? 0.0 : labels[t];
    const double loss = admit(row_, labels == nullptr ? nullptr : &label, losses != nullptr);
    if (losses != nullptr) losses[t] = loss;
    finish_round();
    if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
  }
}

}  // namespace dpoco::oco
