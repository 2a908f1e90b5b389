#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/experts/epoch_selector.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/experts/shift_statistic.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"

namespace dpoco::experts {

struct ShiftDetectorSettings {
  mechanisms::NoisyMaxSettings selection;
  std::optional<std::uint64_t> first;  // expert of the first round; none: uniform
  BiasAllowance bias;
  // Without these three the learner never restarts.
  bool detects = true;
  mechanisms::AboveThresholdSettings test;
  double threshold = 0.0;
  ShiftStatisticSettings statistic;
};

// Selection on epochs that restarts whenever a private test finds that recent losses do not fit the
// past. Alarms are public, as all decisions, and the guarantee covers them. An alarm in round t
// starts a new instance in round t + 1. A restart in round t would use that round twice
// (docs/privacy/shift_detector.md). O(N K) per round.
class ShiftDetector final : public ExpertLearner {
 public:
  ShiftDetector(ExpertSettings settings, const ShiftDetectorSettings& own,
                std::unique_ptr<random::Source> source);

  // Sums of the losses since the last selection, and the windows of the test statistic: raw data,
  // for audits.
  std::vector<double> nonprivate_sums() const { return instance_.sums(); }
  const std::vector<double>& nonprivate_rows() const noexcept { return statistic_.rows(); }

  // Rounds (0-based) that ended with an alarm. Throws RoundOrderError while another thread plays.
  std::vector<std::uint64_t> alarms() const;

 protected:
  void learn(std::span<const double> losses) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  bool detects_;
  double threshold_;
  BiasAllowance bias_;
  EpochInstance instance_;
  ShiftStatistic statistic_;
  mechanisms::AboveThreshold test_;
  std::vector<std::uint64_t> alarms_;
};

}  // namespace dpoco::experts
