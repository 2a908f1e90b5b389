#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/noise_process.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// Private running sums of a stream of vectors: after round t, sum_{i <= t} g_i + noise_t. The
// summands may depend on everything released before. With a clipper every summand is brought into
// its bounds here; without one the caller has bounded it already (docs/privacy/continual_sum.md).
class ContinualSum {
 public:
  // Owns the source: its draws belong to this sum alone.
  ContinualSum(Index dimension, std::uint64_t horizon, std::unique_ptr<NoiseProcess> process,
               std::unique_ptr<random::Source> source,
               std::optional<losses::RecordClipper> clipper = std::nullopt);

  // Throws HorizonExceeded if fewer than `rounds` rounds are left, StateError in a forked child.
  void require(std::uint64_t rounds) const;

  // Adds g (dimension entries; a non-finite one counts as zero if there is a clipper) and writes
  // the released sum to out. Throws as `require(1)`, before any draw and with nothing changed.
  void push(const double* g, double* out);
  // push for `rounds` contiguous rows; throws as `require(rounds)` before the first.
  void run(const double* values, std::uint64_t rounds, double* out);

  Index dimension() const noexcept { return dimension_; }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return horizon_; }
  // The sum without noise: raw data, for audits only.
  const std::vector<double>& nonprivate_sum() const noexcept { return sum_; }
  random::Source& source() noexcept { return *source_; }
  const random::Source& source() const noexcept { return *source_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  void add(const double* g, double* out);

  Index dimension_;
  std::uint64_t horizon_;
  SharedCount round_;
  std::unique_ptr<NoiseProcess> process_;
  std::unique_ptr<random::Source> source_;
  std::optional<losses::RecordClipper> clipper_;
  std::vector<double> sum_;
  std::vector<double> row_;  // private copy of a summand: the caller's memory is read once
  Exclusive exclusive_;
};

}  // namespace dpoco::mechanisms
