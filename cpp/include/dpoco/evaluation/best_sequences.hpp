#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dpoco::evaluation {

// Losses of a whole game: `rounds` rows of `experts` finite entries, both at least 1.
struct LossTable {
  std::span<const double> losses;
  std::uint64_t rounds;
  std::uint64_t experts;
};

struct BestSequence {
  std::vector<double> costs;  // entry c: smallest loss with at most c switches, c <= switches
  // A sequence with the last cost, and as few switches as possible.
  std::vector<std::uint32_t> decisions;
};

// Exact, by dynamic programming: O(experts switches rounds) time and, in the worst case, O(switches
// (experts + rounds)) memory, far less on ordinary tables. Among equal choices it stays rather than
// switches, and takes the lowest index. Throws std::invalid_argument for an empty table, 2^32 - 1
// experts or more, or switches >= rounds.
BestSequence best_sequence(const LossTable& table, std::uint64_t switches);

// The largest value of (own loss - loss of one expert - allowance) summed over the rounds of an
// interval, over all intervals and experts; the empty interval has 0. The allowance of an interval
// of w rounds is the lowest of the tangents of `allowance` sqrt(w) at w = 1, 4, 16, ...: at least
// `allowance` sqrt(w), and at most 3 / (2 sqrt 2) = 1.061 times that. Time O(rounds experts)
// without allowance, O(rounds experts log rounds) with one.
double interval_regret(const LossTable& table, std::span<const double> own_losses,
                       double allowance);

}  // namespace dpoco::evaluation
