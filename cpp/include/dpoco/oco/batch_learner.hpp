#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

// Base of learners that add up the records of a batch and release the sum of all batches.
class BatchLearner : public RecordLearner {
 public:
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  const Batches& batches() const noexcept { return batch_.batches(); }
  const random::Source& source() const noexcept override { return sum_.source(); }
  using RecordLearner::source;

  // All rounds of a batch: `total` is what its records add to the sum, added up elsewhere. Throws
  // as `observe`, and std::invalid_argument, nothing changed, unless a batch begins in this round
  // and has so many rounds.
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
  BatchLearner(Index dimension, std::uint64_t horizon, Batches batches,
               mechanisms::ContinualSum sum)
      : RecordLearner(dimension, horizon), sum_(std::move(sum)), batch_(entries(), batches) {}

  std::size_t entries() const noexcept { return static_cast<std::size_t>(sum_.dimension()); }

  mechanisms::ContinualSum sum_;
  BatchSum batch_;
};

}  // namespace dpoco::oco
