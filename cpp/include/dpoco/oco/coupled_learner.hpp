#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "dpoco/oco/placement.hpp"
#include "dpoco/oco/record_learner.hpp"

namespace dpoco::oco {

// Base of the two learners that couple the laws of successive rounds. The sum of losses brings the
// records within their bounds. At the end of each block of rounds a switch rule decides whether the
// drawn point is kept or a new one is drawn. The learner releases that point on a public grid far
// finer than its spread (and projected onto the domain if rounding left it), so that the digits do
// not show how it was computed. The coupling continues with the point itself.
class CoupledLearner : public RecordLearner {
 public:
  Index intrinsic_dimension() const noexcept { return sum_->dimension(); }
  std::uint64_t switches() const noexcept { return switches_; }  // any thread may ask
  const mechanisms::SwitchSettings& bits() const noexcept { return rule_.settings(); }
  const random::Source& source() const noexcept override { return *source_; }
  using RecordLearner::source;

  // As `observe`. Throws std::invalid_argument, without a change of the state, if the sum takes
  // other records.
  void observe_quadratic(std::uint64_t decided, std::span<const double> matrix,
                         std::span<const double> vector);
  // For other losses: `stage` stages the round's loss in the sum. If `stage` throws, the state is
  // unchanged. If the loss's own functions throw later in the round, the object is unusable,
  // because random numbers may have been used.
  void observe_staged(std::uint64_t decided, const std::function<void(losses::LossSum&)>& stage);

  // The unrounded point, intrinsic_dimension() entries. Private, for tests and studies.
  virtual void nonprivate_point(std::span<double> out) const = 0;

 protected:
  // Throws std::invalid_argument without a sum or a source.
  CoupledLearner(std::unique_ptr<losses::LossSum> sum, const mechanisms::SwitchSettings& rule,
                 std::unique_ptr<random::Source> source);

  double admit(std::optional<double> label, bool wants_loss) override;
  // The grid is a power of two well below `spread`, a public lower bound of a coordinate's standard
  // deviation, and below the body's width. As for continual sums, a cell still contains about 2^40
  // doubles.
  static constexpr int kGridBits = 12;
  double grid_within_body(double spread, int bits = kGridBits) const;
  // The release of a drawn point, which must be rounded to a public grid.
  mechanisms::Released release(std::span<const double> point) const { return {point, round()}; }
  // Rounds a point of the body. `out` may be `point`.
  void round_point(std::span<const double> point, std::span<double> out);
  void embed_released() { sum_->body().embed(released_, decision_); }
  void copy_counts();  // of the switch rule, for other threads

  std::unique_ptr<losses::LossSum> sum_;
  std::unique_ptr<random::Source> source_;
  mechanisms::SwitchRule rule_;
  Placement placement_;
  double grid_ = 0.0;
  std::vector<double> released_;  // in the body's coordinates

 private:
  SharedCount switches_;
  std::vector<double> rounded_;
};

}  // namespace dpoco::oco
