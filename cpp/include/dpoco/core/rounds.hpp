#pragma once

#include <cstdint>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"

namespace dpoco {

// Base of all kinds of learners. It declares the number of rounds, lets in one thread at a time and
// refuses a round out of turn, past the last one, in a forked child or after a round that failed
// midway. It refuses before anything is drawn and leaves the state unchanged.
class Rounds {
 public:
  virtual ~Rounds() = default;
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  std::uint64_t horizon() const noexcept { return horizon_; }
  std::uint64_t round() const noexcept { return round_; }  // rounds that are over
  virtual void check_process() const = 0;                  // throws StateError in a forked child

  // Keeps other threads out for as long as it lives; throws RoundOrderError if one is in.
  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }

  // Throws StateError after a round that failed midway.
  void write(Archive& archive) const;
  // Restores an object just built. Throws StateError for an impossible state; the object then plays
  // no round.
  void read(ArchiveReader& archive);

 protected:
  explicit Rounds(std::uint64_t horizon);  // throws std::invalid_argument for none

  void require_whole() const;  // throws StateError after a round that failed midway
  // Throws as `require_whole`, HorizonExceeded if fewer rounds are left, and StateError in a forked
  // child.
  void require(std::uint64_t rounds) const;
  // Throws as `require(1)`, and RoundOrderError unless `decided` rounds are over.
  void require_turn(std::uint64_t decided) const;

  // Plays one round. If `play` throws, the exception is passed on, and no further round is played
  // and no state written: the round cannot be repeated, because its noise may have been used.
  template <class Play>
  void play_round(Play play) {
    whole_ = false;
    play();
    round_ = round_ + 1;
    whole_ = true;
  }
  void count_rounds(std::uint64_t rounds) noexcept { round_ = round_ + rounds; }

  // Takes the count of rounds from a state, and returns it.
  std::uint64_t read_round(ArchiveReader& archive);
  void set_round(std::uint64_t round) noexcept { round_ = round; }

  virtual void write_state(Archive& archive) const = 0;
  virtual void read_state(ArchiveReader& archive) = 0;

 private:
  std::uint64_t horizon_;
  SharedCount round_;
  bool whole_ = true;
  Exclusive exclusive_;
};

}  // namespace dpoco
