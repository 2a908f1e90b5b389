#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {

// Takes a whole batch in at once, but for ending its last round: `total` is what its records add to
// its `entries`, summed elsewhere. `round` rounds of `horizon` are over. Throws
// std::invalid_argument, nothing changed, unless a batch begins after these and has so many rounds.
inline void take_batch(BatchSum& sum, const double* total, std::size_t entries,
                       std::uint64_t rounds, std::uint64_t round, std::uint64_t horizon) {
  const Batches& batches = sum.batches();
  const bool equal = batches.growth == Growth::none;
  std::uint64_t start = equal ? round - round % batches.first : 0;
  while (start < round) start += batches.length(start);
  if (sum.rest() == nullptr || start != round ||
      rounds != std::min(batches.length(start), horizon - round)) {
    throw std::invalid_argument("tallies must be of a whole batch, of which no round is over");
  }
  simd::kernels().accumulate(1.0, total, entries, sum.sum(), sum.rest());
  for (std::uint64_t r = 1; r < rounds; ++r) sum.close_round();
}

}  // namespace dpoco::oco
