#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/decision_rule.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

// Base of learners that add up the records of a batch and release the sum of all batches. A rule
// computes the decisions from the releases.
class BatchLearner : public RecordLearner {
 public:
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  const Batches& batches() const noexcept { return batch_.batches(); }
  // The rule that makes the decisions. It has only releases and public settings.
  const DecisionRule& rule() const noexcept { return *rule_; }
  const random::Source& source() const noexcept override { return sum_.source(); }
  using RecordLearner::source;

  // Plays all rounds of a batch, whose records' sum `total` was computed elsewhere. Throws as
  // `observe` does, and std::invalid_argument, without any change, unless a batch begins in this
  // round and has this number of rounds.
  void observe_batch(std::uint64_t decided, std::span<const double> total, std::uint64_t rounds) {
    const auto entry = enter();
    require(rounds);
    require_turn(decided);
    std::uint64_t start =
        batches().growth == Growth::none ? round() - round() % batches().first : 0;
    while (start < round()) start += batches().length(start);
    if (batch_.rest().empty() || start != round() ||
        rounds != std::min(batches().length(start), horizon() - round())) {
      throw std::invalid_argument("tallies must be of a whole batch, of which no round is over");
    }
    assert(total.size() == entries());
    simd::kernels().accumulate(1.0, total.data(), total.size(), batch_.sum().data(),
                               batch_.rest().data());
    for (std::uint64_t r = 1; r < rounds; ++r) batch_.close_round();
    count_rounds(rounds - 1);
    finish_round();
  }

 protected:
  BatchLearner(std::uint64_t horizon, Batches batches, mechanisms::ContinualSum sum,
               std::unique_ptr<DecisionRule> rule)
      : RecordLearner(rule->dimension(), horizon),
        sum_(std::move(sum)),
        batch_(entries(), batches),
        rule_(std::move(rule)),
        released_(batch_.values()),
        previous_(decision_) {
    rule_->begin(decision_);
  }

  std::size_t entries() const noexcept { return static_cast<std::size_t>(sum_.dimension()); }

  bool close_round() override {
    if (!batch_.close_round()) return false;
    if (sum_.round() == sum_.horizon()) {  // no decision needs the sum of the last round
      batch_.clear();
      return false;
    }
    const mechanisms::Released released = sum_.add_one(1.0, batch_.values(), released_);
    batch_.clear();
    previous_ = decision_;
    rule_->advance(released, decision_);
    return previous_ != decision_;  // by value: a projection may turn 0 into -0
  }
  // Throws StateError unless the restored sum, batches and decision fit together.
  void check_state() {
    if (sum_.round() != std::min(batch_.ended(), sum_.horizon())) {
      throw StateError("state holds an impossible round");
    }
    rule_->check(decision_);
  }

  mechanisms::ContinualSum sum_;
  BatchSum batch_;
  std::unique_ptr<DecisionRule> rule_;

 private:
  std::vector<double> released_;
  std::vector<double> previous_;  // decision before the last update
};

}  // namespace dpoco::oco
