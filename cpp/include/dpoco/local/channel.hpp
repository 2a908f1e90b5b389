#pragma once

#include <cstddef>

namespace dpoco::local {

// Mutual information, in nats, between the hypothesis (drawn from the weights) and one report.
// All of it is public: weights are those the server may decide with. Same bits on every machine.

// Of one bit with Pr[b = 1 | j] = (1 + contrast means_j) / 2: h(<w, p>) - <w, h(p)>.
double bit_information(const double* weights, const double* means, std::size_t hypotheses,
                       double contrast) noexcept;

// Of randomized response: g_j = contraction f_j + (1 - contraction) / M. `entropies` from
// `response_entropies`: sum_y g_j log g_j for each j.
void response_entropies(const double* matrix, std::size_t hypotheses, std::size_t labels,
                        double contraction, double* entropies) noexcept;
double response_information(const double* weights, const double* matrix, const double* entropies,
                            std::size_t hypotheses, std::size_t labels,
                            double contraction) noexcept;

// sum_j w_j ||f_j - f_w||_2^2, with `squares` = ||f_j||_2^2.
void row_squares(const double* matrix, std::size_t hypotheses, std::size_t labels,
                 double* squares) noexcept;
double weighted_spread(const double* weights, const double* matrix, const double* squares,
                       std::size_t hypotheses, std::size_t labels) noexcept;

// A threshold query that separates what the weights still hold apart. Starts from the pair
// (first, second) and repeats c' = w (mu - <w, mu>) while the weighted variance of the means mu
// does not fall, at most three times. Writes coefficients and means of the last query.
// scratch: 2 hypotheses doubles.
void adaptive_query(const double* weights, const double* matrix, std::size_t hypotheses,
                    std::size_t labels, std::size_t first, std::size_t second, double* coefficients,
                    double* means, double* scratch) noexcept;

// The two largest weights; ties go to the lowest index. hypotheses >= 2.
void leading_pair(const double* weights, std::size_t hypotheses, std::size_t& first,
                  std::size_t& second) noexcept;

}  // namespace dpoco::local
