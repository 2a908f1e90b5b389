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

// Base of learners whose decisions are vectors. A round is one record: the features and label of a
// generalised linear loss, or the gradient of a linear loss. Records that are not finite count as
// zero. Each record is copied before it is read: if it changed between the computation of its norm
// and its use, the clipping would have no effect.
class RecordLearner : public Rounds {
 public:
  Index dimension() const noexcept { return dimension_; }
  virtual const random::Source& source() const noexcept = 0;
  random::Source& source() noexcept {
    return const_cast<random::Source&>(static_cast<const RecordLearner*>(this)->source());
  }
  void check_process() const override { source().check_process(); }

  // The decision of the current round. Throws RoundOrderError while another thread runs the
  // learner.
  void decision(std::span<double> out) const;

  // Plays the round whose decision was asked for after `decided` rounds. Throws as `Rounds`
  // describes, and std::invalid_argument, without a change of the state, for the wrong kind of
  // record.
  void observe(std::uint64_t decided, std::span<const double> features, double label);
  void observe_gradient(std::uint64_t decided, std::span<const double> gradient);

  // Plays many rounds of generalised linear losses (labels given) or linear losses (labels empty).
  // Rows are contiguous. losses, decisions (rounds x d) and changed (rounds) may be empty. losses
  // are those of the clipped records and are not private. The caller must have entered the learner;
  // a caller that shares a lock with other users of this object enters before it releases that
  // lock.
  void run(const Exclusive::Entry& entered, std::span<const double> features,
           std::span<const double> labels, std::span<double> losses, std::span<double> decisions,
           std::span<std::uint8_t> changed);

 protected:
  RecordLearner(Index dimension, std::uint64_t horizon);

  // Adds the record in row_; without a label it is the gradient of a linear loss. Returns its loss
  // at the decision, or any number if the loss is not wanted.
  virtual double admit(std::optional<double> label, bool wants_loss) = 0;
  // Ends the round of the admitted record. Returns whether the decision changed. round() still
  // counts the rounds before it.
  virtual bool close_round() = 0;
  virtual void play(std::span<const double> features, std::span<const double> labels,
                    std::span<double> losses, std::span<double> decisions,
                    std::span<std::uint8_t> changed);

  // Plays one round whose record `take` reads. If `take` throws, the state is unchanged.
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
  // Private copy of the round's record, padded with zeros to simd::padded(dimension()) entries.
  std::span<double> row_;
  std::span<double> own_row() noexcept { return row_.first(static_cast<std::size_t>(dimension_)); }

 private:
  void copy_records(std::span<const double> records);

  Index dimension_;
  std::vector<double> rows_;  // also of later records: the caller's memory is read once
  bool moved_ = false;        // whether the last round changed the decision
};

}  // namespace dpoco::oco
