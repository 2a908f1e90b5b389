#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"

namespace dpoco {

// What the rounds of a batch have added up to, with what rounding has lost of it: without that,
// neighbouring streams drift apart.
class BatchSum {
 public:
  BatchSum(std::size_t entries, std::uint64_t batch)
      : batch_(batch), sum_(entries, 0.0), rest_(entries, 0.0) {
    if (batch < 1) throw std::invalid_argument("batch must be at least 1");
  }

  std::uint64_t batch() const noexcept { return batch_; }
  const std::vector<double>& values() const noexcept { return sum_; }
  double* sum() noexcept { return sum_.data(); }
  // null for a batch of one round, which is its leaf: no sum, nothing to lose.
  double* rest() noexcept { return batch_ > 1 ? rest_.data() : nullptr; }

  // Ends a round; whether it was the batch's last.
  bool close_round() noexcept {
    if (++rounds_ < batch_) return false;
    rounds_ = 0;
    return true;
  }
  void clear() noexcept {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    if (batch_ > 1) std::fill(rest_.begin(), rest_.end(), 0.0);
  }

  void write_sum(Archive& archive) const { archive.reals(sum_.data(), sum_.size()); }
  void write_rest(Archive& archive) const {
    if (batch_ > 1) archive.reals(rest_.data(), rest_.size());
  }
  void read_sum(ArchiveReader& archive) { archive.reals(sum_.data(), sum_.size()); }
  // `round` rounds are over, of all batches. Throws StateError for what no batch can hold.
  void read_rest(ArchiveReader& archive, std::uint64_t round) {
    if (batch_ > 1) archive.reals(rest_.data(), rest_.size());
    rounds_ = round % batch_;
    const bool fresh = rounds_ == 0;
    const bool zero = std::all_of(sum_.begin(), sum_.end(), [](double x) { return x == 0.0; });
    if (!are_rests(sum_.data(), rest_.data(), sum_.size()) || (fresh && !zero)) {
      throw StateError("state holds no sum of a batch");
    }
  }

 private:
  std::uint64_t batch_;
  std::uint64_t rounds_ = 0;  // of the batch in work
  std::vector<double> sum_;
  std::vector<double> rest_;
};

}  // namespace dpoco
