#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"

namespace dpoco::experts {

enum class Windows { tangent, dyadic, naive };

struct ShiftStatisticSettings {
  std::uint64_t experts = 1;
  Windows windows = Windows::tangent;
  // tangent, naive: the allowance of a window of w rounds is min_k offsets_k + slopes_k w. dyadic:
  // offsets_k is the allowance of a block of 2^k rounds; no slopes.
  std::vector<double> offsets;
  std::vector<double> slopes;
  // Losses and allowances are rounded to multiples of max(2^-46, reach 2^-51), where reach is a
  // power of two of at most 2^50. Sums over at most `reach` rounds have no other error.
  std::uint64_t reach = 1 << 20;
};

// The excess loss of the decisions over the best expert in the worst window that ends now, minus an
// allowance. It is the largest, over windows and experts j, of
//   sum over the window of (l_i(J_i) - l_i(j) - allowance_i) - allowance of the window's length.
// Replacing a round's losses l by l' moves it by an amount in l'(J) - l(J) + [-1, 1], whatever the
// window (docs/privacy/shift_detector.md), so one noise draw protects all windows at once. This is
// exact to the last bit for the rounded losses: no rounding errors accumulate over the rounds.
//
// tangent: all windows, with one sum per line and expert that is cut off at zero (CUSUM) and at
// `reach`; O(N K) per round. dyadic: aligned blocks of 2^k rounds, up to `reach`, tested when they
// end; O(N) per round, amortised. naive: as tangent, from stored prefix sums; O(N n) time in the
// n-th round and as much memory.
class ShiftStatistic {
 public:
  // Throws std::invalid_argument for settings out of range.
  explicit ShiftStatistic(ShiftStatisticSettings settings);

  std::uint64_t experts() const noexcept { return settings_.experts; }
  std::uint64_t round() const noexcept { return round_; }  // rounds since the last reset
  const std::vector<double>& rows() const noexcept { return rows_; }
  void reset() noexcept;
  // Ends a round with losses in [0, 1] of all experts, the played index `own`, and the round's
  // public allowance. Returns the statistic.
  double update(std::uint64_t own, std::span<const double> losses, double allowance);

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  double update_tangent(double gain, std::span<const double> losses);
  double update_dyadic(double own_loss, std::span<const double> losses, double allowance);
  double update_naive(double own_loss, std::span<const double> losses, double allowance);
  bool is_plausible() const;

  ShiftStatisticSettings settings_;
  double grid_;
  std::vector<double> losses_;  // rounded losses of a round
  std::uint64_t round_ = 0;
  // tangent: a row of sums per line. dyadic: for each level the last block that ended as a left
  // half, and one row for the current block. naive: prefix sums of l_i(J_i) - l_i(j).
  std::vector<double> rows_;
  std::vector<double> allowances_;  // dyadic: of those blocks; naive: prefix sums
};

}  // namespace dpoco::experts
