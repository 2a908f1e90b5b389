#include "dpoco/local/posterior.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {

namespace {

// Labels per block: K rows of a block are read twice, the second time from the cache.
constexpr std::size_t kBlock = 256;

// Returns whether there is nothing to distinguish. Then, as on the device, there is no question.
bool idle(std::span<const double> coefficients, std::size_t labels) {
  return labels == 1 || std::ranges::all_of(coefficients, [](double each) { return each == 0.0; });
}

}  // namespace

void threshold_means(std::span<const double> matrix, std::span<const double> coefficients,
                     std::span<double> phi, std::span<double> means) noexcept {
  const simd::Kernels& k = simd::kernels();
  const std::size_t hypotheses = coefficients.size();
  const std::size_t labels = matrix.size() / hypotheses;
  assert(means.size() == hypotheses && (phi.empty() || phi.size() == labels));
  double score[kBlock];
  std::ranges::fill(means, 0.0);
  if (idle(coefficients, labels)) {
    std::ranges::fill(phi, 0.0);
    return;
  }
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    std::fill(score, score + count, 0.0);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      k.axpy(coefficients[j], &matrix[j * labels + first], count, score);
    }
    for (std::size_t y = 0; y < count; ++y) {
      const double sign = score[y] > 0.0 ? 1.0 : -1.0;
      score[y] = score[y] - score[y] == 0.0 ? sign : 0.0;
    }
    if (!phi.empty()) std::copy(score, score + count, &phi[first]);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      means[j] += k.dot(&matrix[j * labels + first], score, count);
    }
  }
  // Rows sum to 1 only up to rounding errors and the tolerance of the check.
  for (double& mean : means) mean = std::clamp(mean, -1.0, 1.0);
}

void query_means(std::span<const double> matrix, std::span<const double> phi,
                 std::span<double> means) noexcept {
  for (std::size_t j = 0; j < means.size(); ++j) {
    const auto row = matrix.subspan(j * phi.size(), phi.size());
    means[j] = std::clamp(simd::dot(row, phi), -1.0, 1.0);
  }
}

Posterior::Posterior(std::size_t hypotheses, double temperature)
    : temperature_(temperature), logs_(hypotheses, 0.0) {
  if (hypotheses < 1) throw std::invalid_argument("hypotheses must be at least 1");
  if (!(temperature > 0.0 && temperature <= 1.0)) {
    throw std::invalid_argument("temperature must be in (0, 1]");
  }
}

void Posterior::add(std::span<const double> increments) noexcept {
  const std::size_t n = logs_.size();
  double largest = logs_[0] + increments[0];
  for (std::size_t j = 0; j < n; ++j) {
    logs_[j] += increments[j];
    largest = logs_[j] > largest ? logs_[j] : largest;
  }
  for (std::size_t j = 0; j < n; ++j) logs_[j] -= largest;
}

// Adds one report at a time, so that single reports and batches of them give the same bits.
void Posterior::add_bits(std::span<const double> means, double contrast,
                         std::span<const std::int64_t> values) {
  const std::size_t n = logs_.size();
  const std::size_t bits = means.size() / n;
  assert(bits > 0 && means.size() == bits * n && values.size() % bits == 0);
  if (!(contrast >= 0.0 && contrast < 1.0)) {
    throw std::invalid_argument("contrast must be in [0, 1)");
  }
  for (const std::int64_t value : values) {
    if (value != 0 && value != 1) throw std::invalid_argument("a bit must be 0 or 1");
  }
  table_.resize(2 * bits * n);
  for (std::size_t bit = 0; bit < bits; ++bit) {
    double* zero = table_.data() + 2 * bit * n;
    double* one = zero + n;
    for (std::size_t j = 0; j < n; ++j) {
      const double mean = means[bit * n + j];
      // NaN fails both comparisons and counts as 0.
      const double safe = mean > 1.0 ? 1.0 : mean < -1.0 ? -1.0 : mean == mean ? mean : 0.0;
      zero[j] = elementary::log1p(-contrast * safe);
      one[j] = elementary::log1p(contrast * safe);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto answer = static_cast<std::size_t>(values[i]);
    add(std::span(table_).subspan((2 * (i % bits) + answer) * n, n));
  }
  reports_ += values.size() / bits;
}

void Posterior::add_subsets(std::span<const double> matrix, double excess, std::size_t size,
                            std::span<const std::int64_t> values) {
  const std::size_t n = logs_.size();
  const std::size_t labels = matrix.size() / n;
  if (size < 1) throw std::invalid_argument("a subset must have a label");
  assert(matrix.size() == n * labels && values.size() % size == 0);
  if (!(excess >= 0.0) || !std::isfinite(excess)) {
    throw std::invalid_argument("excess must be finite and not negative");
  }
  for (const std::int64_t value : values) {
    if (value < 0 || static_cast<std::uint64_t>(value) >= labels) {
      throw std::invalid_argument("a label of a subset is out of range");
    }
  }
  table_.resize(n);
  for (std::size_t i = 0; i < values.size(); i += size) {
    for (std::size_t j = 0; j < n; ++j) {
      double inside = 0.0;
      const double* row = &matrix[j * labels];
      for (const std::int64_t label : values.subspan(i, size)) inside += row[label];
      table_[j] = elementary::log1p(excess * std::min(inside, 1.0));
    }
    add(table_);
  }
  reports_ += values.size() / size;
}

void Posterior::weights(double temperature, std::span<double> out) const noexcept {
  assert(out.size() == logs_.size());
  const auto tilt = simd::kernels().tilt;
  const double total = tilt(nullptr, logs_.data(), 0.0, -temperature, logs_.size(), out.data());
  for (double& weight : out) weight /= total;
}

void Posterior::write(Archive& archive) const {
  archive.word(reports_);
  archive.reals(logs_);
}

void Posterior::read(ArchiveReader& archive) {
  const std::uint64_t reports = archive.word();
  std::vector<double> logs(logs_.size());
  archive.reals(logs);
  double largest = logs[0];
  for (const double value : logs) {
    if (!std::isfinite(value)) throw StateError("state holds impossible likelihoods");
    largest = std::max(largest, value);
  }
  if (largest != 0.0) throw StateError("state holds impossible likelihoods");
  reports_ = reports;
  logs_ = std::move(logs);
}

}  // namespace dpoco::local
