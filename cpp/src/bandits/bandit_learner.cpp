#include "dpoco/bandits/bandit_learner.hpp"

#include <algorithm>
#include <cassert>
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

void BanditLearner::admit(Context context) {
  assert(context.size() == raw_.size());
  std::ranges::copy(context, raw_.begin());
  const double multiplier = clipper_.multiplier(raw_);
  finite_ = multiplier != 0.0;
  clipped_ = multiplier != 1.0;
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    admitted_[i] = finite_ ? multiplier * raw_[i] : 0.0;  // an entry may be NaN
  }
}

// Returns the clipped reward; 0 for NaN or an infinity.
double BanditLearner::finish(std::uint64_t arm, double reward) {
  const bool given = std::isfinite(reward);
  const double own = given ? std::clamp(reward, settings_.reward_low, settings_.reward_high) : 0.0;
  violations_ += (clipped_ ? 1U : 0U) + (given && own == reward ? 0U : 1U);
  play_round([&] { learn(arm, finite_ && given ? Context(admitted_) : Context(), own); });
  return own;
}

std::uint64_t BanditLearner::decide(std::uint64_t decided, Context context) {
  const auto entry = enter();
  require_turn(decided);
  if (waiting_) {
    if (std::memcmp(context.data(), raw_.data(), context.size_bytes()) != 0) {
      throw RoundOrderError("this round's decision was asked for with another context");
    }
    return arm_;
  }
  admit(context);
  arm_ = choose(admitted_);
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

std::int64_t BanditLearner::due(std::span<const double> promised) const {
  assert(promised.size() == arms());
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
                                    Context context, double reward) {
  const auto entry = enter();
  if (!takes_arrival(entry, decided, arm, was_due)) return false;
  admit(context);
  finish(arm, reward);
  return true;
}

std::uint64_t BanditLearner::advise_among(Context, Mask) {
  throw std::invalid_argument("this bandit takes no mask of allowed arms");
}

void BanditLearner::recommend(const Exclusive::Entry&, std::span<const double> contexts,
                              std::span<std::int64_t> chosen, Mask allowed) {
  assert(contexts.size() == chosen.size() * dimension());
  require_no_decision();  // its context would be overwritten
  const auto barred = [](std::uint8_t arm) { return arm == 0; };
  if (!allowed.empty() && std::ranges::all_of(allowed, barred)) {
    throw std::invalid_argument("at least one arm must be allowed");
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    admit(contexts.subspan(i * dimension(), dimension()));
    const std::uint64_t arm =
        allowed.empty() ? advise(admitted_) : advise_among(admitted_, allowed);
    chosen[i] = static_cast<std::int64_t>(arm);
  }
}

void BanditLearner::run(const Exclusive::Entry&, std::span<const double> contexts,
                        std::span<const double> rewards, std::span<std::int64_t> chosen,
                        std::span<double> own_rewards) {
  const std::size_t rounds = chosen.size();
  assert(contexts.size() == rounds * dimension() && rewards.size() == rounds * arms() &&
         own_rewards.size() == rounds);
  require(rounds);
  require_no_decision();
  for (std::size_t t = 0; t < rounds; ++t) {
    admit(contexts.subspan(t * dimension(), dimension()));
    const std::uint64_t arm = choose(admitted_);
    chosen[t] = static_cast<std::int64_t>(arm);
    own_rewards[t] = finish(arm, rewards[t * arms() + arm]);
  }
}

std::uint64_t BanditLearner::replay(const Exclusive::Entry&, std::span<const double> contexts,
                                    std::span<const std::int64_t> actions,
                                    std::span<const double> rewards,
                                    std::span<std::int64_t> chosen) {
  const std::size_t events = chosen.size();
  assert(contexts.size() == events * dimension() && actions.size() == events &&
         rewards.size() == events);
  require(0);
  require_no_decision();
  std::size_t read = 0;
  for (; read < events && round() < horizon(); ++read) {
    admit(contexts.subspan(read * dimension(), dimension()));
    const std::uint64_t arm = choose(admitted_);
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
