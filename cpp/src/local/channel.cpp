#include "dpoco/local/channel.hpp"

#include <algorithm>
#include <cassert>

#include "dpoco/local/posterior.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {
namespace {

constexpr std::size_t kBlock = 512;

double plogp(double p) noexcept { return p > 0.0 ? p * elementary::log(p) : 0.0; }

double binary_entropy(double p) noexcept { return -plogp(p) - plogp(1.0 - p); }

// sum_i g_i log g_i for g = a x + b, b > 0.
double entropy_sum(std::span<const double> x, double a, double b) noexcept {
  const simd::Kernels& k = simd::kernels();
  double g[kBlock];
  double logs[kBlock];
  double total = 0.0;
  for (std::size_t first = 0; first < x.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, x.size() - first);
    k.affine(a, &x[first], b, count, g);
    k.log(g, count, logs);
    total += k.dot(g, logs, count);
  }
  return total;
}

// Calls use(part) for consecutive parts of the weighted mean of a matrix's rows.
template <class Use>
void mix_rows(std::span<const double> weights, std::span<const double> matrix, Use use) noexcept {
  const simd::Kernels& k = simd::kernels();
  const std::size_t labels = matrix.size() / weights.size();
  double mean[kBlock];
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    std::fill(mean, mean + count, 0.0);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      k.axpy(weights[j], &matrix[j * labels + first], count, mean);
    }
    use(std::span<const double>(mean, count));
  }
}

double weighted_variance(std::span<const double> weights, std::span<const double> means,
                         std::span<double> centred) noexcept {
  const std::size_t n = weights.size();
  const double mean = simd::dot(weights, means);
  for (std::size_t j = 0; j < n; ++j) centred[j] = means[j] - mean;
  double total = 0.0;
  for (std::size_t j = 0; j < n; ++j) total += weights[j] * (centred[j] * centred[j]);
  return total;
}

}  // namespace

double bit_information(std::span<const double> weights, std::span<const double> means,
                       double contrast) noexcept {
  double p = 0.0;
  double conditional = 0.0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    const double own = 0.5 * (1.0 + contrast * means[j]);
    p += weights[j] * own;
    conditional += weights[j] * binary_entropy(own);
  }
  return binary_entropy(std::clamp(p, 0.0, 1.0)) - conditional;
}

void response_entropies(std::span<const double> matrix, double contraction,
                        std::span<double> entropies) noexcept {
  const std::size_t labels = matrix.size() / entropies.size();
  const double rest = (1.0 - contraction) / static_cast<double>(labels);
  for (std::size_t j = 0; j < entropies.size(); ++j) {
    entropies[j] = entropy_sum(matrix.subspan(j * labels, labels), contraction, rest);
  }
}

double response_information(std::span<const double> weights, std::span<const double> matrix,
                            std::span<const double> entropies, double contraction) noexcept {
  const std::size_t labels = matrix.size() / weights.size();
  const double rest = (1.0 - contraction) / static_cast<double>(labels);
  double information = simd::dot(weights, entropies);
  mix_rows(weights, matrix, [&](std::span<const double> mean) {
    information -= entropy_sum(mean, contraction, rest);
  });
  return information;
}

void row_squares(std::span<const double> matrix, std::span<double> squares) noexcept {
  const std::size_t labels = matrix.size() / squares.size();
  for (std::size_t j = 0; j < squares.size(); ++j) {
    const auto row = matrix.subspan(j * labels, labels);
    squares[j] = simd::dot(row, row);
  }
}

double weighted_spread(std::span<const double> weights, std::span<const double> matrix,
                       std::span<const double> squares) noexcept {
  double spread = simd::dot(weights, squares);
  mix_rows(weights, matrix, [&](std::span<const double> mean) { spread -= simd::dot(mean, mean); });
  return spread;
}

void leading_pair(std::span<const double> weights, std::size_t& first,
                  std::size_t& second) noexcept {
  first = 0;
  for (std::size_t j = 1; j < weights.size(); ++j) {
    if (weights[j] > weights[first]) first = j;
  }
  second = first == 0 ? 1 : 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (j != first && weights[j] > weights[second]) second = j;
  }
}

void adaptive_query(std::span<const double> weights, std::span<const double> matrix,
                    std::size_t first, std::size_t second, std::span<double> coefficients,
                    std::span<double> means, std::span<double> scratch) noexcept {
  const std::size_t n = weights.size();
  assert(coefficients.size() == n && means.size() == n && scratch.size() == 2 * n);
  const std::span<double> next = scratch.first(n);
  const std::span<double> centred = scratch.subspan(n);
  std::ranges::fill(coefficients, 0.0);
  coefficients[first] = 1.0;
  coefficients[second] = -1.0;
  threshold_means(matrix, coefficients, {}, means);
  double variance = weighted_variance(weights, means, centred);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t j = 0; j < n; ++j) centred[j] *= weights[j];
    threshold_means(matrix, centred, {}, next);
    if (std::ranges::equal(next, means)) break;
    // In exact arithmetic the step cannot reduce the variance. If all weight is on one
    // hypothesis, it would end in a constant question.
    double reached = 0.0;
    const double mean = simd::dot(weights, next);
    for (std::size_t j = 0; j < n; ++j) {
      const double distance = next[j] - mean;
      reached += weights[j] * (distance * distance);
    }
    if (!(reached > 0.0) || reached < variance) break;
    std::ranges::copy(centred, coefficients.begin());
    std::ranges::copy(next, means.begin());
    variance = weighted_variance(weights, means, centred);
  }
}

}  // namespace dpoco::local
