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
// drawn point is kept or drawn afresh. Released is that point on a public grid far finer than its
// spread (and projected onto the domain if rounding left it), so that the digits say nothing about
// how it was computed; the coupling goes on with the point itself.
class CoupledLearner : public RecordLearner {
 public:
  Index intrinsic_dimension() const noexcept { return sum_->dimension(); }
  std::uint64_t switches() const noexcept { return switches_; }  // any thread may ask
  const mechanisms::SwitchSettings& bits() const noexcept { return rule_.settings(); }
  const random::Source& source() const noexcept override { return *source_; }
  using RecordLearner::source;

  // As `observe`. std::invalid_argument, state unchanged, if the sum takes other records.
  void observe_quadratic(std::uint64_t decided, std::span<const double> matrix,
                         std::span<const double> vector);
  // Other losses: `stage` brings the round's loss into the sum. An exception out of `stage` leaves
  // the state unchanged. Out of the loss's own functions later in the round, it leaves the object
  // unusable, since random numbers may have been used.
  void observe_staged(std::uint64_t decided, const std::function<void(losses::LossSum&)>& stage);

  // The unrounded point, intrinsic_dimension() entries. Private; for tests and studies.
  virtual void nonprivate_point(std::span<double> out) const = 0;

 protected:
  // Throws std::invalid_argument without a sum or a source.
  CoupledLearner(std::unique_ptr<losses::LossSum> sum, const mechanisms::SwitchSettings& rule,
                 std::unique_ptr<random::Source> source);

  double admit(std::optional<double> label, bool wants_loss) override;
  // A power of two well below `spread`, a public lower bound of a coordinate's standard deviation,
  // and below the body's width. As for continual sums: a cell still holds about 2^40 doubles.
  static constexpr int kGridBits = 12;
  double grid_within_body(double spread, int bits = kGridBits) const;
  // The release of a drawn point, whose digits must be those of a public grid.
  mechanisms::Released release(std::span<const double> point) const { return {point, round()}; }
  // Rounds a point of the body; `out` may be `point`.
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
