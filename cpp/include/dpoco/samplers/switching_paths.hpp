#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dpoco/core/archive.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// The state of a path of experts in a round: its expert and, for priors that count switches, the
// number of switches so far.
struct PathState {
  std::uint64_t level = 0;
  std::uint64_t expert = 0;
};

// Exponential weights over all sequences of T experts: a Markov prior times exp(-rate * past loss),
// in O(levels * N) time per round and memory. No whole sequence is ever drawn. Forward messages
// give the state of a sequence in the current round, and the prior's own transitions, which do not
// depend on the weights, give its future (docs/privacy/oblivious_tracker.md).
//
// Losses are in [0, 1]. A new path and the messages depend on data; `start` and `follow` do not.
// The numbers of variates that `start` and `follow` draw are functions of the path of experts.
class SwitchingPaths {
 public:
  virtual ~SwitchingPaths() = default;

  std::size_t experts() const noexcept { return experts_; }
  std::uint64_t round() const noexcept { return round_; }  // 1, ..., T
  virtual std::size_t levels() const noexcept = 0;
  double rate() const noexcept { return rate_; }
  // The share rate, for paths that share weights.
  virtual std::optional<double> share_rate() const noexcept { return std::nullopt; }

  // Ends the round and adds its losses to the weights.
  void learn(std::span<const double> losses) {
    absorb(losses);
    ++round_;
  }
  // Ends the round without losses, in O(1). No path may be drawn afterwards.
  void skip() noexcept { ++round_; }

  // The state of a path drawn from the prior, in the first round.
  PathState start(random::Source& source) const;
  // The state of a path drawn from the weights of the current round.
  virtual PathState draw(random::Source& source) = 0;
  // The prior's step into the current round, from a state in the round before.
  PathState follow(PathState state, random::Source& source) const;
  // The probability that the step leads to another expert. All others are equally likely.
  virtual double move_chance(std::uint64_t level) const = 0;

  // The loss of an expert in the current round, as the weights count it.
  virtual double loss(std::span<const double> losses, std::uint64_t expert) const {
    return losses[expert];
  }

  // The law of `draw`: `levels` rows of N probabilities. Depends on data, for tests.
  virtual void nonprivate_law(std::span<double> out) const = 0;
  virtual std::unique_ptr<SwitchingPaths> copy() const = 0;

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 protected:
  SwitchingPaths(std::uint64_t experts, double rate);
  SwitchingPaths(const SwitchingPaths&) = default;

  // Returns whether paths can ever change their expert.
  virtual bool moves() const noexcept = 0;
  virtual void absorb(std::span<const double> losses) = 0;
  virtual void write_messages(Archive& archive) const = 0;
  virtual void read_messages(ArchiveReader& archive) = 0;  // round() is restored before

 private:
  std::size_t experts_;
  double rate_;
  std::uint64_t round_ = 1;
};

// In every round the path moves to another expert with probability share_rate. Throws
// std::invalid_argument unless share_rate is in [1e-100, 1 - 1/experts]; for 0, see below.
std::unique_ptr<SwitchingPaths> make_share_paths(std::uint64_t experts, double share_rate,
                                                 double rate);

// All sequences with at most `switches` changes of expert in `rounds` rounds, equally likely. With
// switches = 0 these are the constant sequences, so the weights are exponential weights over
// experts. Losses are rounded to multiples of 2^-46, and cumulative losses are exact sums of them.
std::unique_ptr<SwitchingPaths> make_at_most_paths(std::uint64_t experts, std::uint64_t rounds,
                                                   std::uint64_t switches, double rate);

}  // namespace dpoco::samplers
