#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/experts/linear_transform.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"

namespace dpoco::experts {

// Hedge on privately summed losses. The decision after t rounds is drawn from softmax(-eta M^+
// S_t), where S_t is the noisy sum of M l_1, ..., M l_t. Without a transform, M subtracts the mean,
// which changes no choice among experts, and M^+ is the identity. Only the sum reads data, so the
// decisions are post-processing of it: docs/privacy/prefix_hedge.md. A round takes one push of the
// sum, the transform, and O(N), without further allocation.
class PrefixHedge final : public ExpertLearner {
 public:
  // The sum must have the dimension of the transform's outputs (without one, the number of experts)
  // and a horizon of at least settings.horizon - 1, because the last round is not summed. It has no
  // clipper, and decisions use its source. A transform may have scratch memory, so it must not be
  // shared with another learner in use. Throws std::invalid_argument for sizes that do not fit and
  // a learning rate that is not positive.
  // With a transform the range in `settings` is not used: `run` reports losses unclipped, and
  // violations count the changes by the transform.
  PrefixHedge(ExpertSettings settings, double learning_rate, mechanisms::ContinualSum sum,
              std::shared_ptr<LinearTransform> transform = nullptr);

  random::Source& source() noexcept override { return sum_.source(); }
  const random::Source& source() const noexcept override { return sum_.source(); }
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  // The transform; null if there is none.
  const LinearTransform* transform() const noexcept { return transform_.get(); }

  // The law of the current decision, `experts` entries that add up to 1. It depends only on
  // released sums, so it may be published. Throws RoundOrderError while another thread runs the
  // learner.
  void weights(std::span<double> out) const;

  // The vector that a round with these losses adds to the sum, sum().dimension() entries. Audits
  // compare it between neighbouring streams. It reads private data and is not a release.
  void leaf(std::span<const double> losses, std::span<double> out);

 protected:
  void admit(std::span<const double> losses, std::span<double> to) override;
  void learn(std::span<const double> losses) override;
  void play(std::span<const double> losses, std::span<double> own_losses,
            std::span<std::int64_t> decisions) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  std::uint64_t add(std::span<const double> admitted, std::span<double> row);
  void weigh();
  void draw();
  void decide(std::span<const double> released);
  std::uint64_t pushes_after(std::uint64_t rounds) const noexcept;

  LossRange range_;
  double rate_;
  mechanisms::ContinualSum sum_;
  std::shared_ptr<LinearTransform> transform_;
  std::vector<double> scores_;   // noisy cumulative losses, up to a common shift
  std::vector<double> weights_;  // exp(-rate (score - smallest score))
  double total_ = 0.0;           // their sum
  std::size_t block_ = 1;        // rounds processed at once
  // Admitted losses, summands and sums of a block of rounds.
  std::vector<double> admitted_;
  std::vector<double> rows_;
  std::vector<double> sums_;
};

}  // namespace dpoco::experts
