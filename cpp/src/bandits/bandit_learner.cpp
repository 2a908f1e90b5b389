#include "dpoco/bandits/bandit_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"

namespace dpoco::bandits {

BanditLearner::BanditLearner(BanditSettings settings, losses::RecordClipper clipper)
    : Rounds(settings.horizon),
      settings_(settings),
      clipper_(std::move(clipper)),
      raw_(static_cast<std::size_t>(clipper_.dimension()), 0.0),
      admitted_(raw_) {
  if (settings_.arms < 1) throw std::invalid_argument("arms must be at least 1");
  if (!(settings_.reward_low < settings_.reward_high) || !std::isfinite(settings_.reward_low) ||
      !std::isfinite(settings_.reward_high)) {
    throw std::invalid_argument("the range of rewards must have positive, finite width");
  }
}

void BanditLearner::check_process() const {
  for (std::size_t i = 0; i < sources(); ++i) source(i).check_process();
}

void BanditLearner::adopt() noexcept {
  for (std::size_t i = 0; i < sources(); ++i) source(i).adopt();
}

void BanditLearner::require_no_decision() const {
  if (waiting_) throw RoundOrderError("a decision waits for its reward: observe() or skip() first");
}

void BanditLearner::admit(const double* context) {
  std::copy(context, context + raw_.size(), raw_.data());
  const double multiplier = clipper_.multiplier(raw_);
  finite_ = multiplier != 0.0;
  clipped_ = multiplier != 1.0;
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    admitted_[i] = finite_ ? multiplier * raw_[i] : 0.0;  // an entry may be NaN
  }
}

// Returns the reward as the learner reads it.
double BanditLearner::finish(std::uint64_t arm, double reward) {
  const bool given = std::isfinite(reward);
  const double own = given ? std::clamp(reward, settings_.reward_low, settings_.reward_high) : 0.0;
  violations_ += (clipped_ ? 1U : 0U) + (given && own == reward ? 0U : 1U);
  play_round([&] { learn(arm, finite_ && given ? admitted_.data() : nullptr, own); });
  return own;
}

std::uint64_t BanditLearner::decide(std::uint64_t decided, const double* context) {
  const auto entry = enter();
  require_turn(decided);
  if (waiting_) {
    if (std::memcmp(context, raw_.data(), raw_.size() * sizeof(double)) != 0) {
      throw RoundOrderError("this round's decision was asked for with another context");
    }
    return arm_;
  }
  admit(context);
  arm_ = choose(admitted_.data());
  waiting_ = true;
  return arm_;
}

void BanditLearner::observe(std::uint64_t decided, double reward) {
  const auto entry = enter();
  require_turn(decided);
  if (!waiting_) throw RoundOrderError("decide() and observe() alternate");
  waiting_ = false;
  finish(arm_, reward);
}

std::int64_t BanditLearner::due(const double* promised) const {
  const auto entry = enter();
  return due_arm(promised);
}

bool BanditLearner::takes_arrival(const Exclusive::Entry&, std::uint64_t decided, std::uint64_t arm,
                                  bool was_due) const {
  if (arm >= settings_.arms) throw std::invalid_argument("arm does not exist");
  require(1);
  require_no_decision();  // its context would be overwritten
  if (decided != round()) throw RoundOrderError("another thread has played a round");
  return has_room(arm, was_due);
}

bool BanditLearner::observe_arrival(std::uint64_t decided, std::uint64_t arm, bool was_due,
                                    const double* context, double reward) {
  const auto entry = enter();
  if (!takes_arrival(entry, decided, arm, was_due)) return false;
  admit(context);
  finish(arm, reward);
  return true;
}

std::uint64_t BanditLearner::advise_among(const double*, const std::uint8_t*) {
  throw std::invalid_argument("this bandit takes no mask of allowed arms");
}

void BanditLearner::recommend(const Exclusive::Entry&, const double* contexts, std::uint64_t count,
                              std::int64_t* chosen, const std::uint8_t* allowed) {
  require_no_decision();  // its context would be overwritten
  const auto barred = [](std::uint8_t arm) { return arm == 0; };
  if (allowed != nullptr && std::all_of(allowed, allowed + arms(), barred)) {
    throw std::invalid_argument("at least one arm must be allowed");
  }
  for (std::uint64_t i = 0; i < count; ++i, contexts += raw_.size()) {
    admit(contexts);
    const double* own = admitted_.data();
    const std::uint64_t arm = allowed == nullptr ? advise(own) : advise_among(own, allowed);
    chosen[i] = static_cast<std::int64_t>(arm);
  }
}

void BanditLearner::run(const Exclusive::Entry&, const double* contexts, const double* rewards,
                        std::uint64_t rounds, std::int64_t* chosen, double* own_rewards) {
  require(rounds);
  require_no_decision();
  for (std::uint64_t t = 0; t < rounds; ++t, contexts += raw_.size(), rewards += settings_.arms) {
    admit(contexts);
    const std::uint64_t arm = choose(admitted_.data());
    chosen[t] = static_cast<std::int64_t>(arm);
    own_rewards[t] = finish(arm, rewards[arm]);
  }
}

std::uint64_t BanditLearner::replay(const Exclusive::Entry&, const double* contexts,
                                    const std::int64_t* actions, const double* rewards,
                                    std::uint64_t events, std::int64_t* chosen) {
  require(0);
  require_no_decision();
  std::uint64_t read = 0;
  for (; read < events && round() < horizon(); ++read, contexts += raw_.size()) {
    admit(contexts);
    const std::uint64_t arm = choose(admitted_.data());
    chosen[read] = static_cast<std::int64_t>(arm);
    if (actions[read] == chosen[read]) finish(arm, rewards[read]);
  }
  return read;
}

void BanditLearner::write_state(Archive& archive) const {
  archive.word(round());
  archive.word(violations_);
  write_own(archive);
}

void BanditLearner::read_state(ArchiveReader& archive) {
  read_round(archive);
  violations_ = archive.word();
  waiting_ = false;
  read_own(archive);
}

}  // namespace dpoco::bandits
