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

// Base of all contextual bandits. A round's decision is an arm for the round's context, and the
// reward of that arm ends the round.
//
// A record is a context and a reward. The context is clipped to its bounds; a context that is not
// finite acts as zero. If the context or the reward is not finite, the round adds a zero record:
// the clocks of all arms advance as in every other round.
class BanditLearner : public Rounds {
 public:
  using Context = std::span<const double>;     // dimension() entries
  using Mask = std::span<const std::uint8_t>;  // one entry per arm, 0: not allowed; empty: all are

  std::uint64_t arms() const noexcept { return settings_.arms; }
  std::size_t dimension() const noexcept { return raw_.size(); }

  // The generators of the noise: one for each private sum or selection of the learner.
  virtual std::size_t sources() const noexcept = 0;
  virtual random::Source& source(std::size_t index) noexcept = 0;
  const random::Source& source(std::size_t index) const noexcept {
    return const_cast<BanditLearner*>(this)->source(index);
  }
  void check_process() const override;
  void adopt() noexcept;

  // Returns the arm of round `decided`, the current one. A second call in the same round with the
  // same context (bit for bit) returns the same arm; with another context it throws
  // RoundOrderError, because a round has one user. Throws HorizonExceeded after the horizon. Draws
  // nothing.
  std::uint64_t decide(std::uint64_t decided, Context context);
  // Ends the round with the reward of the chosen arm. Throws RoundOrderError unless `decide` was
  // called in this round, HorizonExceeded after the horizon and StateError in a forked child,
  // before any draw and without a change of the state.
  void observe(std::uint64_t decided, double reward);

  // Delayed feedback: a decision is made now, and its round is played when its reward arrives
  // (docs/privacy/delayed_feedback.md). These calls are refused while a decision of `decide` waits
  // for its reward.
  //
  // `due` returns the arm that must be pulled next, whatever the context, if promised[a] pulls of
  // each arm a (of arms()) are outstanding; -1 if the estimates choose: see `recommend`. Public.
  std::int64_t due(std::span<const double> promised) const;
  // Plays a round with the record of an earlier decision: of the arm that was due then (`due`), or
  // of the arm that the estimates chose. Returns false, and changes nothing, if the schedule has no
  // room for it, which is public. Throws as `observe` does, and if `decided` is not the current
  // round.
  bool observe_arrival(std::uint64_t decided, std::uint64_t arm, bool was_due, Context context,
                       double reward);
  // Returns whether observe_arrival would play a round, and throws if it would throw.
  bool takes_arrival(const Exclusive::Entry& entered, std::uint64_t decided, std::uint64_t arm,
                     bool was_due) const;

  // Writes the arms that the current estimates choose for the rows of contexts; begins no round.
  // Throws std::invalid_argument if no arm may be chosen, or for a mask that the bandit does not
  // take.
  void recommend(const Exclusive::Entry& entered, std::span<const double> contexts,
                 std::span<std::int64_t> chosen, Mask allowed = {});

  // Plays many rounds whose contexts and rewards of all arms (rows of arms() entries) were fixed
  // before. A missing reward is reported as 0. Throws RoundOrderError while a decision waits for
  // its reward.
  void run(const Exclusive::Entry& entered, std::span<const double> contexts,
           std::span<const double> rewards, std::span<std::int64_t> chosen,
           std::span<double> own_rewards);

  // Plays a log of (context, action, reward). An event whose action is the one chosen for its
  // context is a round; other events are skipped and are no rounds. Stops at the end of the horizon
  // and returns how many events were read. Which events count depends on the data, so this is for
  // evaluation and not private.
  std::uint64_t replay(const Exclusive::Entry& entered, std::span<const double> contexts,
                       std::span<const std::int64_t> actions, std::span<const double> rewards,
                       std::span<std::int64_t> chosen);

  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  // The bound of a reward's magnitude.
  double largest_reward() const noexcept {
    return std::fmax(std::fabs(settings_.reward_low), std::fabs(settings_.reward_high));
  }
  // The number of contexts and rewards that were clipped or not finite. Depends on raw data, so it
  // is not private.
  std::uint64_t nonprivate_violations() const noexcept { return violations_; }

 protected:
  // Throws std::invalid_argument for settings out of range.
  BanditLearner(BanditSettings settings, losses::RecordClipper clipper);

  // Returns the arm for a clipped context, computed from released values and public quantities
  // only.
  virtual std::uint64_t choose(Context context) = 0;
  // The same outside any round, for `recommend`: the choice of the estimates alone.
  virtual std::uint64_t advise(Context context) { return choose(context); }
  // The same among the allowed arms, of which there is at least one.
  virtual std::uint64_t advise_among(Context context, Mask allowed);
  // See `due`. Depends on public quantities only.
  virtual std::int64_t due_arm(std::span<const double>) const { return -1; }
  // Returns whether the current round can be played with a record of an earlier decision.
  virtual bool has_room(std::uint64_t, bool) const { return true; }
  // Ends a round in which `arm` was chosen for a clipped context; empty for a zero record. round()
  // still counts the rounds before it.
  virtual void learn(std::uint64_t arm, Context context, double reward) = 0;
  // Writes everything except the round and the count of violations.
  virtual void write_own(Archive& archive) const = 0;
  // Called after these two are restored. Throws StateError for an impossible state.
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
  // Private copies of the round's context, raw and clipped: the caller's memory is read once.
  std::vector<double> raw_;
  std::vector<double> admitted_;
  bool finite_ = true;    // whether the context is finite
  bool clipped_ = false;  // whether it was clipped
};

}  // namespace dpoco::bandits
