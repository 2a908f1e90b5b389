#include "dpoco/local/channel.hpp"

#include <algorithm>

#include "dpoco/local/posterior.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {
namespace {

constexpr std::size_t kBlock = 512;

double plogp(double p) noexcept { return p > 0.0 ? p * elementary::log(p) : 0.0; }

double binary_entropy(double p) noexcept { return -plogp(p) - plogp(1.0 - p); }

// sum_i g_i log g_i for g = a x + b, b > 0.
double entropy_sum(const double* x, std::size_t n, double a, double b) noexcept {
  const simd::Kernels& k = simd::kernels();
  double g[kBlock];
  double logs[kBlock];
  double total = 0.0;
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t count = std::min(kBlock, n - first);
    k.affine(a, x + first, b, count, g);
    k.log(g, count, logs);
    total += k.dot(g, logs, count);
  }
  return total;
}

double weighted_variance(const double* weights, const double* means, std::size_t n,
                         double* centred) noexcept {
  const simd::Kernels& k = simd::kernels();
  const double mean = k.dot(weights, means, n);
  for (std::size_t j = 0; j < n; ++j) centred[j] = means[j] - mean;
  double total = 0.0;
  for (std::size_t j = 0; j < n; ++j) total += weights[j] * (centred[j] * centred[j]);
  return total;
}

}  // namespace

double bit_information(const double* weights, const double* means, std::size_t hypotheses,
                       double contrast) noexcept {
  double p = 0.0;
  double conditional = 0.0;
  for (std::size_t j = 0; j < hypotheses; ++j) {
    const double own = 0.5 * (1.0 + contrast * means[j]);
    p += weights[j] * own;
    conditional += weights[j] * binary_entropy(own);
  }
  return binary_entropy(std::clamp(p, 0.0, 1.0)) - conditional;
}

void response_entropies(const double* matrix, std::size_t hypotheses, std::size_t labels,
                        double contraction, double* entropies) noexcept {
  const double rest = (1.0 - contraction) / static_cast<double>(labels);
  for (std::size_t j = 0; j < hypotheses; ++j) {
    entropies[j] = entropy_sum(matrix + j * labels, labels, contraction, rest);
  }
}

double response_information(const double* weights, const double* matrix, const double* entropies,
                            std::size_t hypotheses, std::size_t labels,
                            double contraction) noexcept {
  const simd::Kernels& k = simd::kernels();
  const double rest = (1.0 - contraction) / static_cast<double>(labels);
  double mean[kBlock];
  double information = k.dot(weights, entropies, hypotheses);
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    std::fill(mean, mean + count, 0.0);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      k.axpy(weights[j], matrix + j * labels + first, count, mean);
    }
    information -= entropy_sum(mean, count, contraction, rest);
  }
  return information;
}

void row_squares(const double* matrix, std::size_t hypotheses, std::size_t labels,
                 double* squares) noexcept {
  const simd::Kernels& k = simd::kernels();
  for (std::size_t j = 0; j < hypotheses; ++j) {
    squares[j] = k.dot(matrix + j * labels, matrix + j * labels, labels);
  }
}

double weighted_spread(const double* weights, const double* matrix, const double* squares,
                       std::size_t hypotheses, std::size_t labels) noexcept {
  const simd::Kernels& k = simd::kernels();
  double mean[kBlock];
  double spread = k.dot(weights, squares, hypotheses);
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    std::fill(mean, mean + count, 0.0);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      k.axpy(weights[j], matrix + j * labels + first, count, mean);
    }
    spread -= k.dot(mean, mean, count);
  }
  return spread;
}

void leading_pair(const double* weights, std::size_t hypotheses, std::size_t& first,
                  std::size_t& second) noexcept {
  first = 0;
  for (std::size_t j = 1; j < hypotheses; ++j) {
    if (weights[j] > weights[first]) first = j;
  }
  second = first == 0 ? 1 : 0;
  for (std::size_t j = 0; j < hypotheses; ++j) {
    if (j != first && weights[j] > weights[second]) second = j;
  }
}

void adaptive_query(const double* weights, const double* matrix, std::size_t hypotheses,
                    std::size_t labels, std::size_t first, std::size_t second, double* coefficients,
                    double* means, double* scratch) noexcept {
  const std::size_t n = hypotheses;
  double* next = scratch;
  double* centred = next + n;
  std::fill(coefficients, coefficients + n, 0.0);
  coefficients[first] = 1.0;
  coefficients[second] = -1.0;
  threshold_means(matrix, coefficients, n, labels, nullptr, means);
  double variance = weighted_variance(weights, means, n, centred);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t j = 0; j < n; ++j) centred[j] *= weights[j];
    threshold_means(matrix, centred, n, labels, nullptr, next);
    if (std::equal(next, next + n, means)) break;
    // The step cannot lose in exact arithmetic; where all weight is on one hypothesis it would end
    // in a constant question.
    double reached = 0.0;
    const double mean = simd::kernels().dot(weights, next, n);
    for (std::size_t j = 0; j < n; ++j) {
      const double distance = next[j] - mean;
      reached += weights[j] * (distance * distance);
    }
    if (!(reached > 0.0) || reached < variance) break;
    std::copy(centred, centred + n, coefficients);
    std::copy(next, next + n, means);
    variance = weighted_variance(weights, means, n, centred);
  }
}

}  // namespace dpoco::local
