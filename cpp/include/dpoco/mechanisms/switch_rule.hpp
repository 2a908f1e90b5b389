#pragma once

#include <cstdint>
#include <limits>

#include "dpoco/core/archive.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

struct SwitchSettings {
  static constexpr std::uint64_t kNoCap = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t horizon = 1;  // rounds
  std::uint64_t block = 1;    // rounds per stay/switch decision
  double forced = 1.0;        // probability of a switch that ignores the losses; 1: always
  std::uint64_t max_switches = kNoCap;
};

// The stay/switch bits of a coupled learner: at the end of every block of rounds the decision is
// kept with probability (1 - forced) * product of the rounds' acceptance factors, and drawn afresh
// otherwise, until max_switches are used up. No bit is drawn after the last round.
// docs/privacy/couplings.md bounds the privacy loss of a bit. Every bit that is not certain
// beforehand costs one uniform variate, independently of the data.
class SwitchRule {
 public:
  // Throws std::invalid_argument unless 1 <= block, horizon and 0 <= forced <= 1.
  explicit SwitchRule(SwitchSettings settings);

  const SwitchSettings& settings() const noexcept { return settings_; }
  std::uint64_t switches() const noexcept { return switches_; }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t draws() const noexcept { return draws_; }  // uniforms used
  // Returns whether a switch can still happen at or after the end of the current block. If not, the
  // learner need not keep later losses.
  bool open() const noexcept;
  // Whether the round's acceptance factor matters.
  bool wants_factor() const noexcept { return open() && settings_.forced < 1.0; }

  // Ends a round whose acceptance factor has the given logarithm (at most 0; ignored unless
  // wants_factor()). Returns whether the learner must draw a fresh decision now. `forced`: switch
  // at this block's end for a public reason.
  bool advance(double log_factor, random::Source& source, bool forced = false);

  // log of the probability to stay so far in this block, without the forced coin.
  double log_stay() const noexcept { return log_stay_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  SwitchSettings settings_;
  double log_keep_;  // log(1 - forced)
  std::uint64_t round_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t draws_ = 0;  // uniforms used
  double log_stay_ = 0.0;
};

// For couplings with the fewest switches, which are not private: whether a draw of the law mu' lies
// in its excess over mu, which it does with probability max(0, 1 - mu/mu'). One uniform.
bool lies_in_excess(double log_ratio, random::Source& source);  // log_ratio = ln(mu'/mu) there

}  // namespace dpoco::mechanisms
