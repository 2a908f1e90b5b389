#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"

namespace dpoco::experts {

struct BatchShareSettings {
  ExpertSettings problem;
  std::uint64_t batch = 1;     // rounds between two updates of the weights
  double learning_rate = 1.0;  // eta
  double share_rate = 0.0;     // sigma: 0, or in [1e-100, 1 - 1/experts]
  // If positive, projection keeps weights at or above this floor instead of sharing. In [0,
  // 1/experts]; not together with a share rate.
  double floor = 0.0;
  bool centered = false;  // subtract the mean of the batch's sum before its release
  // Losses are rounded to multiples of this and of the grid that keeps sums exact: 0, or a power of
  // two up to 1 of which a batch has fewer than 2^51. For noise on a grid, the grid of the noise.
  double grid = 0.0;
};

// Exponential weights with sharing on privately released sums of batches of losses: the paper's
// learner for adaptive adversaries, corrected. In every round of batch b the decision is drawn
// independently from w_b. When the batch ends, its sum is released once, as X, and
//   v_j = w_b(j) exp(-eta X_j) / Z,   w_{b+1}(j) = (1 - sigma - o) v_j + o,   o = sigma / (N - 1).
// Each round enters only one release, and weights and decisions are post-processing of releases. If
// no round follows a batch, its losses are neither stored nor released.
// Privacy and regret: docs/privacy/batch_share.md. O(N) per round, no allocation.
class BatchShare final : public ExpertLearner {
 public:
  // `release` must be for vectors of `experts` entries. Throws std::invalid_argument.
  BatchShare(BatchShareSettings settings, std::unique_ptr<mechanisms::VectorRelease> release,
             std::unique_ptr<random::Source> source);

  // The law of the current round's decision, `experts` entries. It is post-processing of releases.
  void weights(std::span<double> out) const;
  // The last release (zeros before the first), and its input: raw data, for audits only.
  const std::vector<double>& released() const noexcept { return released_; }
  const std::vector<double>& nonprivate_input() const noexcept { return input_; }

 protected:
  void learn(std::span<const double> losses) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  std::uint64_t releases_before(std::uint64_t round) const noexcept;
  std::uint64_t draws_before(std::uint64_t round) const noexcept;
  bool is_shared() const noexcept { return settings_.share_rate > 0.0 || settings_.floor > 0.0; }
  std::array<double, 5> settings_in_state() const noexcept;
  void close_batch();
  void update();
  void tabulate();
  void draw();

  BatchShareSettings settings_;
  std::unique_ptr<mechanisms::VectorRelease> release_;
  std::uint64_t releases_;        // number of releases over the whole horizon
  double shift_ = 0.0;            // rounds losses to a grid on which sums are exact
  std::vector<double> sums_;      // sums of the current batch
  std::vector<double> input_;     // input of the last release
  std::vector<double> released_;  // the last release
  // The weights. Without share and floor a weight that underflowed to 0 would never return, so the
  // state then has the cumulative released losses minus the smallest.
  std::vector<double> state_;
  std::vector<double> table_;  // running sums of the weights
  std::vector<double> scratch_;
};

}  // namespace dpoco::experts
