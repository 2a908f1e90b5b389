#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/core/exact_sums.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"

namespace dpoco::experts {

// How far above the best expert's mean loss that of the expert played is allowed to lie, while the
// losses are stationary: with the expert selected from m rounds,
//   min(1, sqrt(2 log_union / m) + noise log_union / m), and `unselected` before a selection.
struct BiasAllowance {
  double log_union = 0.0;
  double noise = 0.0;
  double unselected = 1.0;

  double after(std::uint64_t m) const noexcept;
};

// Selection on windows of 1, 2, 4, ... rounds, no longer than the longest, from a first round on
// that its owner chooses: in each it plays a noisy argmin of the sums of losses over the one
// before. Every round feeds one selection (docs/privacy/epoch_selector.md). O(N) a round. Losses
// are rounded to multiples of 2^-46 and summed without error: a round moves each of the sums that
// the argmin sees by at most 1, whatever the losses.
class EpochInstance {
 public:
  static constexpr std::uint64_t kDoubling = 1ULL << 62;  // longest window: none is as long

  explicit EpochInstance(mechanisms::NoisyMaxSettings selection, std::uint64_t longest = kDoubling);

  // Forgets everything: the next round has local time 1.
  void restart() noexcept;
  std::uint64_t rounds() const noexcept { return rounds_; }  // learned since the restart
  // Rounds the expert of the current round was selected from; 0 before the first selection. Of
  // windows that always double.
  std::uint64_t selected_from() const noexcept;
  std::vector<double> sums() const { return sums_.values(); }  // since the last selection
  // An expert drawn uniformly, without data.
  std::uint64_t uniform(random::Source& source) { return selector_.uniform(source); }

  // Ends a round of admitted losses. Returns the expert selected for the rounds to come, if one is
  // due; in the last round of all (`last`) nothing is drawn and nothing returned.
  std::optional<std::uint64_t> learn(std::span<const double> losses, bool last,
                                     random::Source& source);
  // Rounds that may be learned at once before the one that ends a window; add(grid, sums) adds
  // their losses.
  std::uint64_t open() const noexcept;
  template <class Add>
  void learn_open(std::uint64_t rounds, Add add) {
    sums_.add_rounds(rounds, add);
    rounds_ += rounds;
  }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  // Of so many rounds, those of the window that is not complete.
  std::uint64_t count_open(std::uint64_t rounds) const noexcept;

  mechanisms::NoisyMax selector_;
  std::uint64_t longest_;
  std::uint64_t grown_;  // rounds of the windows that are shorter than the longest
  std::uint64_t rounds_ = 0;
  ExactSums sums_;  // of losses since the last selection
  std::vector<double> scores_;
};

struct EpochSelectorSettings {
  mechanisms::NoisyMaxSettings selection;
  std::optional<std::uint64_t> first;                // expert of the first round; none: uniform
  std::uint64_t longest = EpochInstance::kDoubling;  // window
};

// Private selection for losses of one law, or of one that changes: limited updates on windows.
class EpochSelector final : public ExpertLearner {
 public:
  EpochSelector(ExpertSettings settings, const EpochSelectorSettings& own,
                std::unique_ptr<random::Source> source);

  // Of the losses that wait for the next selection: raw data, for audits.
  std::vector<double> nonprivate_sums() const { return instance_.sums(); }

 protected:
  void learn(std::span<const double> losses) override;
  void play(std::span<const double> losses, std::span<double> own_losses,
            std::span<std::int64_t> decisions) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  EpochInstance instance_;
};

}  // namespace dpoco::experts
