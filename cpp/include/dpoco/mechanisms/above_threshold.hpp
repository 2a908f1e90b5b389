#pragma once

#include <cstdint>

#include "dpoco/core/archive.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

enum class ThresholdNoise { exponential, laplace };

struct AboveThresholdSettings {
  double threshold_scale = 0.0;  // of the noise on the threshold, drawn when it is armed
  double query_scale = 0.0;      // of the noise on each query; both scales in units of the queries
  ThresholdNoise noise = ThresholdNoise::exponential;
  std::uint64_t alarms = 1;  // alarms raised before it must be armed again
};

// The sparse vector technique: answers "is the query above the threshold?" for a stream of queries.
// Alarms cost privacy, silence does not (docs/privacy/shift_detector.md). A query raises an alarm
// when excess + query noise >= threshold noise. By default both noises are one-sided exponentials,
// which the proof allows because it only ever moves the threshold upwards; Laplace noise is the
// published variant. The threshold noise is secret and does not change until the next `arm`.
class AboveThreshold {
 public:
  // Throws std::invalid_argument unless the scales are finite and >= 0 and alarms >= 1.
  explicit AboveThreshold(AboveThresholdSettings settings);

  const AboveThresholdSettings& settings() const noexcept { return settings_; }
  bool armed() const noexcept { return left_ > 0; }

  // Draws fresh threshold noise: one variate.
  void arm(random::Source& source);
  // Returns whether a query that exceeds its public threshold by `excess` raises an alarm; an
  // excess of NaN never does. One variate. Throws RoundOrderError, before any draw, unless armed().
  bool test(double excess, random::Source& source);
  // As `test`, for a stream whose threshold is armed once, before its `first` query. One threshold
  // noise then serves all alarms, which the proof allows. Throws HorizonExceeded after the last
  // alarm.
  bool test_armed_once(double excess, random::Source& source, bool first);
  // The number of alarms that a stream armed once has raised in `tests` queries.
  std::uint64_t alarms_raised(std::uint64_t tests) const noexcept {
    return tests == 0 ? 0 : settings_.alarms - left_;
  }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  double draw(double scale, random::Source& source) const;

  AboveThresholdSettings settings_;
  std::uint64_t left_ = 0;
  double threshold_noise_ = 0.0;
};

}  // namespace dpoco::mechanisms
