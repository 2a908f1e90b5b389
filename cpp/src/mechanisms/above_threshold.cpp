#include "dpoco/mechanisms/above_threshold.hpp"

#include <cmath>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/noise/exponential.hpp"

namespace dpoco::mechanisms {
namespace {

bool is_scale(double value) { return value >= 0.0 && std::isfinite(value); }

}  // namespace

AboveThreshold::AboveThreshold(AboveThresholdSettings settings) : settings_(settings) {
  if (!is_scale(settings_.threshold_scale) || !is_scale(settings_.query_scale)) {
    throw std::invalid_argument("noise scales must be finite and at least 0");
  }
  if (settings_.alarms < 1) throw std::invalid_argument("alarms must be at least 1");
}

double AboveThreshold::draw(double scale, random::Source& source) const {
  double z = 0.0;
  if (settings_.noise == ThresholdNoise::laplace) {
    noise::laplaces(source, {&z, 1});
  } else {
    z = noise::exponential(source);
  }
  return scale * z;
}

void AboveThreshold::arm(random::Source& source) {
  threshold_noise_ = draw(settings_.threshold_scale, source);
  left_ = settings_.alarms;
}

bool AboveThreshold::test(double excess, random::Source& source) {
  if (!armed()) throw RoundOrderError("the threshold must be armed before it is tested");
  const bool alarm = excess + draw(settings_.query_scale, source) >= threshold_noise_;
  if (alarm) --left_;
  return alarm;
}

bool AboveThreshold::test_armed_once(double excess, random::Source& source, bool first) {
  if (first) {
    arm(source);
  } else if (!armed()) {
    throw HorizonExceeded("the declared number of alarms is used up");
  }
  return test(excess, source);
}

void AboveThreshold::write(Archive& archive) const {
  archive.word(left_);
  archive.real(threshold_noise_);
}

void AboveThreshold::read(ArchiveReader& archive) {
  const std::uint64_t left = archive.word();
  const double threshold_noise = archive.real();
  const bool one_sided = settings_.noise == ThresholdNoise::exponential;
  if (left > settings_.alarms || !std::isfinite(threshold_noise) ||
      (one_sided && threshold_noise < 0.0) ||
      (settings_.threshold_scale == 0.0 && threshold_noise != 0.0)) {
    throw StateError("state holds an impossible threshold");
  }
  left_ = left;
  threshold_noise_ = threshold_noise;
}

}  // namespace dpoco::mechanisms
