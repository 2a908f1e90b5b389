#include "dpoco/mechanisms/switch_rule.hpp"

#include <cmath>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::mechanisms {

SwitchRule::SwitchRule(SwitchSettings settings)
    : settings_(settings),
      log_keep_(settings.forced < 1.0 ? elementary::log1p(-settings.forced)
                                      : -std::numeric_limits<double>::infinity()) {
  if (settings_.horizon < 1 || settings_.block < 1) {
    throw std::invalid_argument("horizon and block must be at least 1");
  }
  if (!(settings_.forced >= 0.0 && settings_.forced <= 1.0)) {
    throw std::invalid_argument("the probability of a forced switch must be in [0, 1]");
  }
}

bool SwitchRule::open() const noexcept {
  if (switches_ >= settings_.max_switches || round_ >= settings_.horizon) return false;
  // The current block ends `left` rounds from now; no decision is taken after the last round.
  const std::uint64_t left = settings_.block - round_ % settings_.block;
  return left < settings_.horizon - round_;
}

bool SwitchRule::advance(double log_factor, random::Source& source, bool forced) {
  const bool decides = open();
  ++round_;
  if (!decides) {
    log_stay_ = 0.0;
    return false;
  }
  if (settings_.forced < 1.0) log_stay_ += log_factor;
  if (round_ % settings_.block != 0) return false;
  bool switching = true;
  if (settings_.forced < 1.0 && !forced) {
    ++draws_;
    switching = !noise::bernoulli_exp(source, log_keep_ + log_stay_);
  }
  log_stay_ = 0.0;
  if (switching) ++switches_;
  return switching;
}

void SwitchRule::write(Archive& archive) const {
  archive.word(round_);
  archive.word(switches_);
  archive.word(draws_);
  archive.real(log_stay_);
}

void SwitchRule::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(settings_.horizon + 1);
  const std::uint64_t decisions = round / settings_.block;
  const std::uint64_t switches = archive.word_below(decisions + 1);
  const std::uint64_t draws = archive.word_below(decisions + 1);
  const double log_stay = archive.real();
  if (switches > settings_.max_switches || !(log_stay <= 0.0) ||
      (round % settings_.block == 0 && log_stay != 0.0)) {
    throw StateError("state holds impossible switches");
  }
  round_ = round;
  switches_ = switches;
  draws_ = draws;
  log_stay_ = log_stay;
}

bool lies_in_excess(double log_ratio, random::Source& source) {
  return source.uniform() > elementary::exp(-log_ratio);
}

}  // namespace dpoco::mechanisms
