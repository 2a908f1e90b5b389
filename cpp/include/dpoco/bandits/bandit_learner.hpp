#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/rounds.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::bandits {

struct BanditSettings {
  std::uint64_t arms = 1;
  std::uint64_t horizon = 1;  // rounds
  double reward_low = -1.0;   // rewards are clipped to [reward_low, reward_high]
  double reward_high = 1.0;
};

// Base of all contextual bandits: a round's decision is an arm for the round's context, the
// round ends with the reward of that arm.
//
// A record is a context and a reward. The context is clipped into its bounds; one that is not
// finite acts as zero, and then, or if the reward is not finite, the round adds a zero record: the
// clocks of all arms advance as in every other round.
class BanditLearner : public Rounds {
 public:
  using Context = std::span<const double>;     // dimension() entries
  using Mask = std::span<const std::uint8_t>;  // an entry an arm, 0: not allowed; empty: all are

  std::uint64_t arms() const noexcept { return settings_.arms; }
  std::size_t dimension() const noexcept { return raw_.size(); }

  // Generators of the noise: one for each private sum or selection the learner is made of.
  virtual std::size_t sources() const noexcept = 0;
  virtual random::Source& source(std::size_t index) noexcept = 0;
  const random::Source& source(std::size_t index) const noexcept {
    return const_cast<BanditLearner*>(this)->source(index);
  }
  void check_process() const override;
  void adopt() noexcept;

  // The arm of round `decided`, the current one. Asked again in the same round with the same
  // context (bit for bit) it is the same; with another it throws RoundOrderError: a round has one
  // user. HorizonExceeded past the horizon. Draws nothing.
  std::uint64_t decide(std::uint64_t decided, Context context);
  // Ends the round with the reward of the arm decided on. Throws RoundOrderError unless `decide`
  // was called in this round, HorizonExceeded past the horizon and StateError in a forked child,
  // before any draw, state unchanged.
  void observe(std::uint64_t decided, double reward);

  // Delayed feedback: a decision is made now and its round played when its reward arrives
  // (docs/privacy/delayed_feedback.md). A decision that waits for its reward keeps this out.
  //
  // The arm that has to be pulled next, whatever the context, if promised[a] pulls of each arm a
  // (of arms()) are under way; -1 if the estimates decide: see `recommend`. Public.
  std::int64_t due(std::span<const double> promised) const;
  // Plays a round with a record whose decision was made earlier: the arm that was due then (`due`),
  // or the one the estimates chose. Returns false, with nothing changed, if the schedule has no
  // room for it, which is public. Throws as `observe` does, and if `decided` is not the round.
  bool observe_arrival(std::uint64_t decided, std::uint64_t arm, bool was_due, Context context,
                       double reward);
  // Whether it would play a round; throws where it would.
  bool takes_arrival(const Exclusive::Entry& entered, std::uint64_t decided, std::uint64_t arm,
                     bool was_due) const;

  // The arms that the current estimates choose for contexts, rows; no round is begun. Throws
  // std::invalid_argument if no arm may be chosen, or for a mask that the bandit does not take.
  void recommend(const Exclusive::Entry& entered, std::span<const double> contexts,
                 std::span<std::int64_t> chosen, Mask allowed = {});

  // Many rounds whose contexts and rewards of all arms (rows of arms() entries) were fixed
  // beforehand. A reward that is missing is reported as 0. Throws RoundOrderError while a decision
  // waits for its reward.
  void run(const Exclusive::Entry& entered, std::span<const double> contexts,
           std::span<const double> rewards, std::span<std::int64_t> chosen,
           std::span<double> own_rewards);

  // Plays a log of (context, action, reward): an event whose action is the one chosen for its
  // context is a round, any other is passed over without one. Stops when the horizon is used up;
  // returns how many events were read. Which events count depends on the data: for evaluation, not
  // private.
  std::uint64_t replay(const Exclusive::Entry& entered, std::span<const double> contexts,
                       std::span<const std::int64_t> actions, std::span<const double> rewards,
                       std::span<std::int64_t> chosen);

  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  // Bound of a reward's magnitude.
  double largest_reward() const noexcept {
    return std::fmax(std::fabs(settings_.reward_low), std::fabs(settings_.reward_high));
  }
  // Contexts and rewards clipped or not finite so far: depends on raw data, not private.
  std::uint64_t nonprivate_violations() const noexcept { return violations_; }

 protected:
  // Throws std::invalid_argument for settings out of range.
  BanditLearner(BanditSettings settings, losses::RecordClipper clipper);

  // The arm for a context within its bounds, from released values and public quantities only.
  virtual std::uint64_t choose(Context context) = 0;
  // The same outside of any round, for `recommend`: what the estimates alone would choose.
  virtual std::uint64_t advise(Context context) { return choose(context); }
  // The same among the arms that are allowed, at least one.
  virtual std::uint64_t advise_among(Context context, Mask allowed);
  // See `due`; public quantities only.
  virtual std::int64_t due_arm(std::span<const double>) const { return -1; }
  // Whether the current round can be played with a record of an earlier decision.
  virtual bool has_room(std::uint64_t, bool) const { return true; }
  // Ends a round in which `arm` was chosen for a context within its bounds. Empty: a zero record.
  // round() still counts the rounds before it.
  virtual void learn(std::uint64_t arm, Context context, double reward) = 0;
  // Everything but the round and the count of violations.
  virtual void write_own(Archive& archive) const = 0;
  // Called after those are restored; throws StateError for an impossible state.
  virtual void read_own(ArchiveReader& archive) = 0;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  void require_no_decision() const;
  void admit(Context context);
  double finish(std::uint64_t arm, double reward);

  BanditSettings settings_;
  losses::RecordClipper clipper_;
  std::uint64_t violations_ = 0;
  bool waiting_ = false;  // a decision of this round waits for its reward
  std::uint64_t arm_ = 0;
  // Private copy of the round's context, as given and within its bounds: the caller's memory is
  // read once.
  std::vector<double> raw_;
  std::vector<double> admitted_;
  bool finite_ = true;    // whether the context counts
  bool clipped_ = false;  // whether it was changed
};

}  // namespace dpoco::bandits
