#include "dpoco/oco/record_learner.hpp"

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

void RecordLearner::decision(double* out) const {
  const auto entry = enter();
  require_whole();
  std::copy_n(decision_.begin(), dimension_, out);
}

void RecordLearner::observe(std::uint64_t decided, const double* features, double label) {
  play_turn(decided, [&] {
    copy_records(features, 1);
    admit(row_, &label, false);
  });
}

void RecordLearner::observe_gradient(std::uint64_t decided, const double* gradient) {
  play_turn(decided, [&] {
    copy_records(gradient, 1);
    admit(row_, nullptr, false);
  });
}

void RecordLearner::copy_records(const double* records, std::uint64_t count) {
  const std::size_t d = static_cast<std::size_t>(dimension_), width = simd::padded(d);
  if (rows_.size() < count * width) rows_.resize(count * width, 0.0);
  row_ = rows_.data();
  for (std::uint64_t r = 0; r < count; ++r) std::copy_n(records + r * d, d, row_ + r * width);
}

void RecordLearner::run(const Exclusive::Entry&, const double* features, const double* labels,
                        std::uint64_t rounds, double* losses, double* decisions,
                        std::uint8_t* changed) {
  require(rounds);
  play(features, labels, rounds, losses, decisions, changed);
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
