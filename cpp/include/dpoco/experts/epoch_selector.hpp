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

// The allowed distance of the played expert's mean loss from the best expert's, while the losses
// are stationary. For an expert selected from m rounds it is
//   min(1, sqrt(2 log_union / m) + noise log_union / m), and `unselected` before a selection.
struct BiasAllowance {
  double log_union = 0.0;
  double noise = 0.0;
  double unselected = 1.0;

  double after(std::uint64_t m) const noexcept;
};

// Selection on windows of 1, 2, 4, ... rounds, up to the longest. The owner chooses the first
// round. In each window it plays a noisy argmin of the sums of losses over the window before. Every
// round enters one selection (docs/privacy/epoch_selector.md). O(N) per round. Losses are rounded
// to multiples of 2^-46 and summed without error, so a round moves each sum of a selection by at
// most 1, whatever the losses.
class EpochInstance {
 public:
  static constexpr std::uint64_t kDoubling = 1ULL << 62;  // as `longest`: windows always double

  explicit EpochInstance(mechanisms::NoisyMaxSettings selection, std::uint64_t longest = kDoubling);

  // Forgets everything. The next round has local time 1.
  void restart() noexcept;
  std::uint64_t rounds() const noexcept { return rounds_; }  // rounds learned since the restart
  // The number of rounds from which the current round's expert was selected; 0 before the first
  // selection. Only for windows that always double.
  std::uint64_t selected_from() const noexcept;
  std::vector<double> sums() const { return sums_.values(); }  // since the last selection
  // Returns an expert drawn uniformly, without data.
  std::uint64_t uniform(random::Source& source) { return selector_.uniform(source); }

  // Ends a round of admitted losses. Returns the expert selected for the next rounds, if a
  // selection is due. In the last round of the stream (`last`) draws nothing and returns nothing.
  std::optional<std::uint64_t> learn(std::span<const double> losses, bool last,
                                     random::Source& source);
  // Rounds that may be learned at once before the round that ends a window. add(grid, sums) must
  // add their losses.
  std::uint64_t open() const noexcept;
  template <class Add>
  void learn_open(std::uint64_t rounds, Add add) {
    sums_.add_rounds(rounds, add);
    rounds_ += rounds;
  }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  // Of this number of rounds, the rounds in the incomplete window.
  std::uint64_t count_open(std::uint64_t rounds) const noexcept;

  mechanisms::NoisyMax selector_;
  std::uint64_t longest_;
  std::uint64_t grown_;  // total rounds of the windows shorter than the longest
  std::uint64_t rounds_ = 0;
  ExactSums sums_;  // sums of losses since the last selection
  std::vector<double> scores_;
};

struct EpochSelectorSettings {
  mechanisms::NoisyMaxSettings selection;
  std::optional<std::uint64_t> first;                // expert of the first round; none: uniform
  std::uint64_t longest = EpochInstance::kDoubling;  // window
};

// Private selection for losses of one law, or of a law that changes: limited updates on windows.
class EpochSelector final : public ExpertLearner {
 public:
  EpochSelector(ExpertSettings settings, const EpochSelectorSettings& own,
                std::unique_ptr<random::Source> source);

  // Sums of the losses since the last selection: raw data, for audits.
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
