#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dpoco/core/rounds.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::experts {

// Losses are declared to lie in [low, high], and an affine map brings them to [0, 1]. Values
// outside are clipped, and an entry that is not finite counts as 0.
struct LossRange {
  double low = 0.0;
  double high = 1.0;
};

struct ExpertSettings {
  std::uint64_t experts = 1;
  std::uint64_t horizon = 1;  // rounds
  LossRange range;
};

// Base of all learners of experts. A decision is an index below experts(), and the losses of all
// experts end a round.
//
// A learner draws its first decision when it is built, and every further decision at the end of the
// round before. So asking for a decision changes nothing.
class ExpertLearner : public Rounds {
 public:
  std::uint64_t experts() const noexcept { return settings_.experts; }
  // The decision of the current round; after the last round, that of the last round. Throws
  // RoundOrderError while another thread runs the learner.
  std::uint64_t decision() const;
  virtual random::Source& source() noexcept { return *source_; }
  virtual const random::Source& source() const noexcept { return *source_; }
  void check_process() const override { source().check_process(); }

  // Ends the round whose decision was asked for after `decided` rounds. Throws as `Rounds`
  // describes.
  void observe(std::uint64_t decided, std::span<const double> losses);

  // Plays many rounds whose losses (rows of `experts` entries) were fixed before. Writes
  // own_losses, the losses of the decisions in [0, 1], and decisions; both have one entry per
  // round. The caller must have entered the learner.
  void run(const Exclusive::Entry& entered, std::span<const double> losses,
           std::span<double> own_losses, std::span<std::int64_t> decisions);

  // The number of entries clipped or replaced so far. Depends on raw data, so it is not private.
  std::uint64_t nonprivate_violations() const noexcept { return violations_; }
  // The output of `write_own`: raw data, for audits.
  std::string nonprivate_memory() const {
    Archive archive;
    write_own(archive);
    return archive.take();
  }

 protected:
  // Throws std::invalid_argument for settings out of range. The constructor of a subclass draws the
  // first decision and calls `set_decision`. The source may be null for a subclass that overrides
  // `source` and has the generator in its own state.
  ExpertLearner(ExpertSettings settings, std::unique_ptr<random::Source> source);

  void set_decision(std::uint64_t expert) noexcept { decision_ = expert; }
  std::uint64_t current() const noexcept { return decision_; }
  // Returns whether the current round is the last one, so that no further decision is needed.
  bool ends_last_round() const noexcept { return round() + 1 >= horizon(); }
  // Clips a row of losses to [0, 1] and counts violations. A subclass whose losses have no common
  // range uses its own bounds.
  virtual void admit(std::span<const double> losses, std::span<double> to);
  // Clips rows, writes the losses of the current decision, and adds the rows to sums, rounded to
  // multiples of grid.
  void admit_sums(std::span<const double> losses, double grid, std::span<double> sums,
                  std::span<double> own_losses);
  void count_violations(std::uint64_t count) noexcept { violations_ += count; }

  // Ends a round of admitted losses and sets the next decision. round() still counts the rounds
  // before it.
  virtual void learn(std::span<const double> losses) = 0;
  // Plays rows and counts them. By default admits and learns them one by one.
  virtual void play(std::span<const double> losses, std::span<double> own_losses,
                    std::span<std::int64_t> decisions);
  // Writes everything except the round, the decision, the count of violations and the base's
  // source.
  virtual void write_own(Archive& archive) const = 0;
  // Called after these are restored. Throws StateError for an impossible state.
  virtual void read_own(ArchiveReader& archive) = 0;
  void write_state(Archive& archive) const override;
  void read_state(ArchiveReader& archive) override;

 private:
  ExpertSettings settings_;
  double inverse_width_;
  std::unique_ptr<random::Source> source_;
  std::uint64_t decision_ = 0;
  std::uint64_t violations_ = 0;
  std::vector<double> admitted_;  // private copy of a row: the caller's memory is read once
};

}  // namespace dpoco::experts
