#pragma once

#include <cstddef>
#include <span>

namespace dpoco::local {

// Mutual information, in nats, between the hypothesis (drawn from the weights) and one report. A
// matrix has one row for each hypothesis. All values are public: weights are those that the server
// may use for its decisions. Results have the same bits on every machine.

// For one bit with Pr[b = 1 | j] = (1 + contrast means_j) / 2: h(<w, p>) - <w, h(p)>.
double bit_information(std::span<const double> weights, std::span<const double> means,
                       double contrast) noexcept;

// For randomized response: g_j = contraction f_j + (1 - contraction) / M. `entropies` comes from
// `response_entropies`: sum_y g_j log g_j for each j.
void response_entropies(std::span<const double> matrix, double contraction,
                        std::span<double> entropies) noexcept;
double response_information(std::span<const double> weights, std::span<const double> matrix,
                            std::span<const double> entropies, double contraction) noexcept;

// sum_j w_j ||f_j - f_w||_2^2, with `squares` = ||f_j||_2^2.
void row_squares(std::span<const double> matrix, std::span<double> squares) noexcept;
double weighted_spread(std::span<const double> weights, std::span<const double> matrix,
                       std::span<const double> squares) noexcept;

// Finds a threshold query that separates the hypotheses on which the weights are still spread.
// Starts from the pair (first, second) and repeats c' = w (mu - <w, mu>) while the weighted
// variance of the means mu does not fall, at most three times. Writes coefficients and means of the
// last query. scratch: twice as many entries as hypotheses.
void adaptive_query(std::span<const double> weights, std::span<const double> matrix,
                    std::size_t first, std::size_t second, std::span<double> coefficients,
                    std::span<double> means, std::span<double> scratch) noexcept;

// Finds the two largest weights; ties go to the lowest index. There must be at least two weights.
void leading_pair(std::span<const double> weights, std::size_t& first,
                  std::size_t& second) noexcept;

}  // namespace dpoco::local
