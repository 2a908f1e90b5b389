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
  std::vector<double> costs;  // entry c: least loss with at most c switches, c <= switches
  // Attains the last cost, with as few switches as that takes.
  std::vector<std::uint32_t> decisions;
};

// Exact, by dynamic programming: O(experts switches rounds) time, O(switches (experts + rounds))
// memory at the worst and far less on ordinary tables. Of equal choices it takes staying before
// switching, and the lowest index. Throws std::invalid_argument for an empty table, 2^32 - 1
// experts or more, or switches >= rounds.
BestSequence best_sequence(const LossTable& table, std::uint64_t switches);

// Largest value of (own loss - loss of one expert - allowance) summed over rounds of an interval,
// over all intervals and experts; the empty interval counts 0. The allowance of an interval of w
// rounds is the lowest of the tangents of `allowance` sqrt(w) at w = 1, 4, 16, ...: at least
// `allowance` sqrt(w), and at most 3 / (2 sqrt 2) = 1.061 times that. O(rounds experts) time
// without allowance, O(rounds experts log rounds) with one.
double interval_regret(const LossTable& table, std::span<const double> own_losses,
                       double allowance);

}  // namespace dpoco::evaluation
