#pragma once

#include <cstddef>
#include <span>

namespace dpoco::local {

// Mutual information, in nats, between the hypothesis (drawn from the weights) and one report.
// A matrix has one row a hypothesis. All of it is public: weights are those the server may decide
// with. Same bits on every machine.

// Of one bit with Pr[b = 1 | j] = (1 + contrast means_j) / 2: h(<w, p>) - <w, h(p)>.
double bit_information(std::span<const double> weights, std::span<const double> means,
                       double contrast) noexcept;

// Of randomized response: g_j = contraction f_j + (1 - contraction) / M. `entropies` from
// `response_entropies`: sum_y g_j log g_j for each j.
void response_entropies(std::span<const double> matrix, double contraction,
                        std::span<double> entropies) noexcept;
double response_information(std::span<const double> weights, std::span<const double> matrix,
                            std::span<const double> entropies, double contraction) noexcept;

// sum_j w_j ||f_j - f_w||_2^2, with `squares` = ||f_j||_2^2.
void row_squares(std::span<const double> matrix, std::span<double> squares) noexcept;
double weighted_spread(std::span<const double> weights, std::span<const double> matrix,
                       std::span<const double> squares) noexcept;

// A threshold query that separates what the weights still hold apart. Starts from the pair
// (first, second) and repeats c' = w (mu - <w, mu>) while the weighted variance of the means mu
// does not fall, at most three times. Writes coefficients and means of the last query.
// scratch: twice as many entries as hypotheses.
void adaptive_query(std::span<const double> weights, std::span<const double> matrix,
                    std::size_t first, std::size_t second, std::span<double> coefficients,
                    std::span<double> means, std::span<double> scratch) noexcept;

// The two largest weights; ties go to the lowest index. At least two of them.
void leading_pair(std::span<const double> weights, std::size_t& first,
                  std::size_t& second) noexcept;

}  // namespace dpoco::local
