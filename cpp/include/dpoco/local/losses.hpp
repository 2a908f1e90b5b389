#pragma once

#include <cstddef>
#include <span>

namespace dpoco::local {

// A label with a smaller share of the mixture counts as impossible: every loss on it is 0.
inline constexpr double kSmallestMixed = 1e-300;
// The smallest half range. Losses within it do not distinguish hypotheses.
inline constexpr double kSmallestHalfRange = 1e-12;

// Centred mixed log-losses (docs/privacy/local_learning.md). With the mixture p_j = (1 - mixing)
// f_j + mixing * mean of the f_i, the loss of hypothesis j on label y is u_j(y) = -log p_j(y),
// minus the mid-point of the largest and smallest over j. Labels that are impossible under every
// hypothesis have u = 0. Results have the same bits on every machine.

// matrix and out have one row for each hypothesis. O(K M), no allocation.
void centred_losses(std::span<const double> matrix, std::size_t hypotheses, double mixing,
                    std::span<double> out) noexcept;

// Mid-points and half ranges (at least 1e-12) of each hypothesis' loss over the possible labels. If
// `sums` is not empty, it receives the sums of u_j over all labels.
void loss_ranges(std::span<const double> matrix, double mixing, std::span<double> middle,
                 std::span<double> half_range, std::span<double> sums);

// out_y = sum_j coefficients_j matrix[j, y], added in the order of j.
void mixture(std::span<const double> matrix, std::span<const double> coefficients,
             std::span<double> out) noexcept;

}  // namespace dpoco::local
