#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/samplers/switching_paths.hpp"

namespace dpoco::experts {

// The law of the step at the end of the current round, given the past, for tests.
struct TrackerKernel {
  double keep = 1.0;                               // probability that the path is kept
  std::unique_ptr<samplers::SwitchingPaths> next;  // in the next round: law of a fresh draw, steps
};

// The batched private dartboard over all sequences of experts, evaluated lazily. A path follows the
// prior's own steps. At the end of a batch of B rounds it is kept with probability (1 - p) exp(-eta
// * its loss in the batch); otherwise a new path is drawn from exponential weights
// (docs/privacy/oblivious_tracker.md). The number of variates depends only on the experts played
// and on the rounds with a fresh draw.
class ObliviousTracker final : public ExpertLearner {
 public:
  // `coins` has the block B, the forced probability p and the cap on fresh draws. Its horizon is
  // the learner's.
  ObliviousTracker(ExpertSettings settings, std::unique_ptr<samplers::SwitchingPaths> paths,
                   mechanisms::SwitchSettings coins, double learning_rate,
                   std::unique_ptr<random::Source> source);

  std::uint64_t resamples() const noexcept { return resamples_; }  // any thread may ask

  samplers::PathState nonprivate_state() const noexcept { return state_; }
  // Replaces the state of the path, for tests. Throws std::invalid_argument for an impossible
  // state.
  void nonprivate_set_state(samplers::PathState state);
  // Returns the kernel for these losses in [0, 1]. Changes nothing.
  TrackerKernel nonprivate_kernel(std::span<const double> losses) const;

 protected:
  void learn(std::span<const double> losses) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  void move_to(samplers::PathState state) noexcept;

  std::unique_ptr<samplers::SwitchingPaths> paths_;
  mechanisms::SwitchRule coins_;
  double rate_;
  samplers::PathState state_;
  SharedCount resamples_;  // copy of the coins' count
};

}  // namespace dpoco::experts
