#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"

namespace dpoco::local {

// phi_y = +1 if sum_j c_j F[j, y] > 0 (added in the order of j), else -1, and means_j = sum_y F[j,
// y] phi_y clamped to [-1, 1]. `phi` may be empty. One pass over F. Results have the same bits on
// every machine.
void threshold_means(std::span<const double> matrix, std::span<const double> coefficients,
                     std::span<double> phi, std::span<double> means) noexcept;

// means_j = sum_y F[j, y] phi_y, clamped to [-1, 1].
void query_means(std::span<const double> matrix, std::span<const double> phi,
                 std::span<double> means) noexcept;

// Tempered Bayes on the messages themselves. L_j is the sum of the log-likelihoods of all reports
// under hypothesis j, and the largest is subtracted after each report. Weights are proportional to
// exp(temperature L_j).
class Posterior {
 public:
  // Throws std::invalid_argument unless K >= 1 and temperature is in (0, 1].
  Posterior(std::size_t hypotheses, double temperature);

  std::size_t hypotheses() const noexcept { return logs_.size(); }
  std::uint64_t reports() const noexcept { return reports_; }
  std::span<const double> log_likelihoods() const noexcept { return logs_; }

  // Adds reports to one specification. Each has as many bits as means has rows, and a row has the K
  // expectations of a public question, in [-1, 1]. The contrast is c0: Pr[b = 1 | y] = (1 + c0
  // phi(y)) / 2. O(bits K) once and O(bits K) per report.
  void add_bits(std::span<const double> means, double contrast,
                std::span<const std::int64_t> values);
  // Adds reports of subsets of `size` labels each: Pr[Z | y] is 1 + excess times larger if y is in
  // Z. matrix has K rows. Throws std::invalid_argument, before any change, for a size of 0 or a
  // label out of range. O(size K) per report.
  void add_subsets(std::span<const double> matrix, double excess, std::size_t size,
                   std::span<const std::int64_t> values);

  // Weights at another temperature. They are also post-processing.
  void weights(double temperature, std::span<double> out) const noexcept;
  double temperature() const noexcept { return temperature_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  void add(std::span<const double> increments) noexcept;

  double temperature_;
  std::uint64_t reports_ = 0;
  std::vector<double> logs_;
  std::vector<double> table_;  // log-likelihoods of both answers, per bit
};

}  // namespace dpoco::local
