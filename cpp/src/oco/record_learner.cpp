#include "dpoco/oco/record_learner.hpp"

namespace dpoco::oco {

RecordLearner::RecordLearner(Index dimension, std::uint64_t horizon)
    : Rounds(horizon),
      decision_(static_cast<std::size_t>(dimension), 0.0),
      row_(decision_),
      dimension_(dimension) {}

void RecordLearner::decision(double* out) const {
  const auto entry = enter();
  require_whole();
  std::copy_n(decision_.begin(), dimension_, out);
}

void RecordLearner::observe(std::uint64_t decided, const double* features, double label) {
  play_turn(decided, [&] { admit(own_copy(features), &label, false); });
}

void RecordLearner::observe_gradient(std::uint64_t decided, const double* gradient) {
  play_turn(decided, [&] { admit(own_copy(gradient), nullptr, false); });
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
  for (std::uint64_t t = 0; t < rounds; ++t, features += d) {
    if (decisions != nullptr) std::copy_n(decision_.begin(), d, decisions + t * d);
    const double label = labels == nullptr ? 0.0 : labels[t];
    const double loss =
        admit(own_copy(features), labels == nullptr ? nullptr : &label, losses != nullptr);
    if (losses != nullptr) losses[t] = loss;
    finish_round();
    if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
  }
}

}  // namespace dpoco::oco
