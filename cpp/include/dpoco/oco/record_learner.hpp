#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/core/rounds.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::oco {

// Base of learners whose decisions are vectors: a round is one record, the features and label of
// a generalised linear loss or the gradient of a linear one. Records that are not finite count as
// zero. Each is copied before it is looked at: were it to change between the reading of its norm
// and its use, the clipping would be void.
class RecordLearner : public Rounds {
 public:
  Index dimension() const noexcept { return dimension_; }
  virtual const random::Source& source() const noexcept = 0;
  random::Source& source() noexcept {
    return const_cast<random::Source&>(static_cast<const RecordLearner*>(this)->source());
  }
  void check_process() const override { source().check_process(); }

  // The decision of the current round. RoundOrderError while another thread runs the learner.
  void decision(std::span<double> out) const;

  // One round: the one in which `decided` rounds were over when its decision was asked for. Throws
  // as `Rounds` says; std::invalid_argument, state unchanged, for the wrong kind of record.
  void observe(std::uint64_t decided, std::span<const double> features, double label);
  void observe_gradient(std::uint64_t decided, std::span<const double> gradient);

  // Many rounds of generalised linear (labels given) or linear (labels empty) losses; rows are
  // contiguous. losses, decisions (rounds x d) and changed (rounds) may be empty. losses are those
  // of the clipped records: they are not private. The caller enters: one that shares a lock with
  // other users of this object does so before it gives that lock up.
  void run(const Exclusive::Entry& entered, std::span<const double> features,
           std::span<const double> labels, std::span<double> losses, std::span<double> decisions,
           std::span<std::uint8_t> changed);

 protected:
  RecordLearner(Index dimension, std::uint64_t horizon);

  // Takes in the record in row_, without a label the gradient of a linear loss. Returns its loss at
  // the decision; any number if that is not wanted.
  virtual double admit(std::optional<double> label, bool wants_loss) = 0;
  // Ends the round of what was taken in; whether the decision changed. round() still counts the
  // rounds before it.
  virtual bool close_round() = 0;
  virtual void play(std::span<const double> features, std::span<const double> labels,
                    std::span<double> losses, std::span<double> decisions,
                    std::span<std::uint8_t> changed);

  // One round whose record `take` brings in; an exception of its leaves the state unchanged.
  template <class Take>
  void play_turn(std::uint64_t decided, Take take) {
    const auto entry = enter();
    require_turn(decided);
    take();
    finish_round();
  }
  void finish_round() {
    play_round([this] { moved_ = close_round(); });
  }

  std::vector<double> decision_;  // of at least dimension() entries
  // Private copy of the round's record, with zeros behind it: simd::padded(dimension()) entries.
  std::span<double> row_;
  std::span<double> own_row() noexcept { return row_.first(static_cast<std::size_t>(dimension_)); }

 private:
  void copy_records(std::span<const double> records);

  Index dimension_;
  std::vector<double> rows_;  // also of records to come: the caller's memory is read once
  bool moved_ = false;        // whether the last round changed the decision
};

}  // namespace dpoco::oco
