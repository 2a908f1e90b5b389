#include "dpoco/local/posterior.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {

namespace {

// Labels at a time: K rows of a block are read twice, the second time from the cache.
constexpr std::size_t kBlock = 256;

// Nothing is asked where there is nothing to tell apart: as on the device.
bool idle(const double* coefficients, std::size_t hypotheses, std::size_t labels) {
  return labels == 1 || std::all_of(coefficients, coefficients + hypotheses,
                                    [](double coefficient) { return coefficient == 0.0; });
}

}  // namespace

void threshold_means(const double* matrix, const double* coefficients, std::size_t hypotheses,
                     std::size_t labels, double* phi, double* means) noexcept {
  const simd::Kernels& k = simd::kernels();
  double score[kBlock];
  std::fill(means, means + hypotheses, 0.0);
  if (idle(coefficients, hypotheses, labels)) {
    if (phi != nullptr) std::fill(phi, phi + labels, 0.0);
    return;
  }
  for (std::size_t first = 0; first < labels; first += kBlock) {
    const std::size_t count = std::min(kBlock, labels - first);
    std::fill(score, score + count, 0.0);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      k.axpy(coefficients[j], matrix + j * labels + first, count, score);
    }
    for (std::size_t y = 0; y < count; ++y) {
      const double sign = score[y] > 0.0 ? 1.0 : -1.0;
      score[y] = score[y] - score[y] == 0.0 ? sign : 0.0;
    }
    if (phi != nullptr) std::copy(score, score + count, phi + first);
    for (std::size_t j = 0; j < hypotheses; ++j) {
      means[j] += k.dot(matrix + j * labels + first, score, count);
    }
  }
  // Rows sum to 1 only up to rounding and the tolerance of the check.
  for (std::size_t j = 0; j < hypotheses; ++j) means[j] = std::clamp(means[j], -1.0, 1.0);
}

void query_means(const double* matrix, const double* phi, std::size_t hypotheses,
                 std::size_t labels, double* means) noexcept {
  const simd::Kernels& k = simd::kernels();
  for (std::size_t j = 0; j < hypotheses; ++j) {
    means[j] = std::clamp(k.dot(matrix + j * labels, phi, labels), -1.0, 1.0);
  }
}

Posterior::Posterior(std::size_t hypotheses, double temperature)
    : temperature_(temperature), logs_(hypotheses, 0.0) {
  if (hypotheses < 1) throw std::invalid_argument("hypotheses must be at least 1");
  if (!(temperature > 0.0 && temperature <= 1.0)) {
    throw std::invalid_argument("temperature must be in (0, 1]");
  }
}

void Posterior::add(const double* increments) noexcept {
  const std::size_t n = logs_.size();
  double largest = logs_[0] + increments[0];
  for (std::size_t j = 0; j < n; ++j) {
    logs_[j] += increments[j];
    largest = logs_[j] > largest ? logs_[j] : largest;
  }
  for (std::size_t j = 0; j < n; ++j) logs_[j] -= largest;
}

// One report at a time, so that reports brought singly and together give the same bits.
void Posterior::add_bits(const double* means, double contrast, std::size_t bits,
                         const std::int64_t* values, std::size_t reports) {
  const std::size_t n = logs_.size();
  if (!(contrast >= 0.0 && contrast < 1.0)) {
    throw std::invalid_argument("contrast must be in [0, 1)");
  }
  for (std::size_t i = 0; i < reports * bits; ++i) {
    if (values[i] != 0 && values[i] != 1) throw std::invalid_argument("a bit must be 0 or 1");
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
  for (std::size_t i = 0; i < reports; ++i) {
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const auto answer = static_cast<std::size_t>(values[i * bits + bit]);
      add(table_.data() + (2 * bit + answer) * n);
    }
  }
  reports_ += reports;
}

void Posterior::add_subsets(const double* matrix, std::size_t labels, double excess,
                            std::size_t size, const std::int64_t* values, std::size_t reports) {
  const std::size_t n = logs_.size();
  if (!(excess >= 0.0) || !std::isfinite(excess)) {
    throw std::invalid_argument("excess must be finite and not negative");
  }
  for (std::size_t i = 0; i < reports * size; ++i) {
    if (values[i] < 0 || static_cast<std::uint64_t>(values[i]) >= labels) {
      throw std::invalid_argument("a label of a subset is out of range");
    }
  }
  table_.resize(n);
  for (std::size_t i = 0; i < reports; ++i) {
    const std::int64_t* subset = values + i * size;
    for (std::size_t j = 0; j < n; ++j) {
      double inside = 0.0;
      const double* row = matrix + j * labels;
      for (std::size_t s = 0; s < size; ++s) inside += row[subset[s]];
      table_[j] = elementary::log1p(excess * std::min(inside, 1.0));
    }
    add(table_.data());
  }
  reports_ += reports;
}

void Posterior::weights(double temperature, double* out) const noexcept {
  const std::size_t n = logs_.size();
  const double total = simd::kernels().tilt(nullptr, logs_.data(), 0.0, -temperature, n, out);
  for (std::size_t j = 0; j < n; ++j) out[j] /= total;
}

void Posterior::write(Archive& archive) const {
  archive.word(reports_);
  archive.reals(logs_.data(), logs_.size());
}

void Posterior::read(ArchiveReader& archive) {
  const std::uint64_t reports = archive.word();
  std::vector<double> logs(logs_.size());
  archive.reals(logs.data(), logs.size());
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
