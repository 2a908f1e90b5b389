#include "dpoco/local/losses.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {
namespace {

constexpr std::size_t kBlock = 128;  // labels per block: K rows of them stay in the cache

// Both functions work on columns of a larger matrix, whose rows are `stride` apart. A span would
// have to contain the columns between them, so they take pointers.

// floor_y = mixing * mean of the column. Adds hypotheses in their order.
void mixed_floor(const double* matrix, std::size_t hypotheses, std::size_t labels,
                 std::size_t stride, double mixing, double* floor) noexcept {
  const simd::Kernels& k = simd::kernels();
  std::fill(floor, floor + labels, 0.0);
  for (std::size_t j = 0; j < hypotheses; ++j) k.axpy(1.0, matrix + j * stride, labels, floor);
  const auto count = static_cast<double>(hypotheses);
  for (std::size_t y = 0; y < labels; ++y) floor[y] = mixing * (floor[y] / count);
}

// Processes a block of at most kBlock labels. The rows of `out` are `out_stride` apart.
void block_losses(const double* matrix, std::size_t hypotheses, std::size_t labels,
                  std::size_t stride, double mixing, const double* floor, double* out,
                  std::size_t out_stride) noexcept {
  const simd::Kernels& k = simd::kernels();
  double high[kBlock];
  double low[kBlock];
  for (std::size_t j = 0; j < hypotheses; ++j) {
    double* row = out + j * out_stride;
    const double* from = matrix + j * stride;
    for (std::size_t y = 0; y < labels; ++y) {
      const double mixed = (1.0 - mixing) * from[y] + floor[y];
      row[y] = floor[y] > kSmallestMixed ? mixed : 1.0;
    }
    k.log(row, labels, row);
    for (std::size_t y = 0; y < labels; ++y) {
      row[y] = -row[y];
      high[y] = j == 0 || row[y] > high[y] ? row[y] : high[y];
      low[y] = j == 0 || row[y] < low[y] ? row[y] : low[y];
    }
  }
  for (std::size_t j = 0; j < hypotheses; ++j) {
    double* row = out + j * out_stride;
    for (std::size_t y = 0; y < labels; ++y) row[y] -= 0.5 * (high[y] + low[y]);
  }
}

}  // namespace

void centred_losses(std::span<const double> matrix, std::size_t hypotheses, double mixing,
                    std::span<double> out) noexcept {
  assert(out.size() == matrix.size());
  const std::size_t labels = matrix.size() / hypotheses;
  double floor[kBlock];
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    const double* const from = &matrix[first];
    mixed_floor(from, hypotheses, count, labels, mixing, floor);
    block_losses(from, hypotheses, count, labels, mixing, floor, &out[first], labels);
  }
}

void loss_ranges(std::span<const double> matrix, double mixing, std::span<double> middle,
                 std::span<double> half_range, std::span<double> sums) {
  const std::size_t hypotheses = middle.size();
  const std::size_t labels = matrix.size() / hypotheses;
  assert(half_range.size() == hypotheses && (sums.empty() || sums.size() == hypotheses));
  std::vector<double> block(hypotheses * kBlock);
  std::vector<double> low(hypotheses, 0.0);
  std::vector<double> high(hypotheses, 0.0);
  double floor[kBlock];
  std::ranges::fill(sums, 0.0);
  bool any = false;
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    const double* const from = &matrix[first];
    mixed_floor(from, hypotheses, count, labels, mixing, floor);
    block_losses(from, hypotheses, count, labels, mixing, floor, block.data(), kBlock);
    for (std::size_t y = 0; y < count; ++y) {
      if (!(floor[y] > kSmallestMixed)) continue;
      for (std::size_t j = 0; j < hypotheses; ++j) {
        const double loss = block[j * kBlock + y];
        high[j] = !any || loss > high[j] ? loss : high[j];
        low[j] = !any || loss < low[j] ? loss : low[j];
        if (!sums.empty()) sums[j] += loss;
      }
      any = true;
    }
  }
  for (std::size_t j = 0; j < hypotheses; ++j) {
    middle[j] = 0.5 * (high[j] + low[j]);
    half_range[j] = std::max(0.5 * (high[j] - low[j]), kSmallestHalfRange);
  }
}

void mixture(std::span<const double> matrix, std::span<const double> coefficients,
             std::span<double> out) noexcept {
  constexpr std::size_t kPiece = 2048;  // of the output: stays in the first cache
  const simd::Kernels& k = simd::kernels();
  const std::size_t labels = out.size();
  assert(matrix.size() == coefficients.size() * labels);
  std::ranges::fill(out, 0.0);
  for (std::size_t first = 0; first < labels; first += kPiece) {
    const std::size_t count = std::min(kPiece, labels - first);
    for (std::size_t j = 0; j < coefficients.size(); ++j) {
      k.axpy(coefficients[j], &matrix[j * labels + first], count, &out[first]);
    }
  }
}

}  // namespace dpoco::local
