#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco {

// Adds factor * x to the sum of a batch, and rounding errors to its rest unless that is empty.
inline void add_scaled(double factor, std::span<const double> x, std::span<double> sum,
                       std::span<double> rest) {
  const simd::Kernels& k = simd::kernels();
  assert(sum.size() >= x.size() && (rest.empty() || rest.size() == sum.size()));
  if (rest.empty()) {
    k.axpy(factor, x.data(), x.size(), sum.data());
  } else {
    k.accumulate(factor, x.data(), x.size(), sum.data(), rest.data());
  }
}

// Public lengths of batches: constant, or growing with the number of rounds before.
enum class Growth : std::uint8_t { none, root, quarter, three_tenths };
struct Batches {
  std::uint64_t first = 1;
  Growth growth = Growth::none;

  // The length of the batch that begins after `start` rounds.
  std::uint64_t length(std::uint64_t start) const noexcept {
    switch (growth) {
      case Growth::root:
        return std::max(first, std::min(start / 10, root(4 * start)));
      case Growth::quarter:
        return std::max(first, start / 4);
      case Growth::three_tenths:
        return longer(start);
      case Growth::none:
        break;
    }
    return first;
  }
  bool single() const noexcept { return first == 1 && growth == Growth::none; }

 private:
  // The length of the batch that begins after `start` rounds, if each batch is 1.3 times as long as
  // the one before, rounded down.
  std::uint64_t longer(std::uint64_t start) const noexcept {
    auto length = static_cast<double>(first);
    for (std::uint64_t end = 0; end < start; length *= 1.3) {
      end += static_cast<std::uint64_t>(length);
    }
    return static_cast<std::uint64_t>(length);
  }
  static std::uint64_t root(std::uint64_t n) noexcept {  // rounded down
    auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    while (r * r > n) --r;
    while ((r + 1) * (r + 1) <= n) ++r;
    return r;
  }
};

// The sum of a batch's rounds with the rounding errors of its additions, without which neighbouring
// streams drift apart. Padded with zeros to simd::padded(entries).
class BatchSum {
 public:
  BatchSum(std::size_t entries, Batches batches)
      : batches_(batches),
        length_(batches.first),
        entries_(entries),
        sum_(simd::padded(entries), 0.0),
        rest_(sum_) {
    if (batches.first < 1) throw std::invalid_argument("batch must be at least 1");
  }

  const Batches& batches() const noexcept { return batches_; }
  std::uint64_t length() const noexcept { return length_; }  // of the current batch
  std::uint64_t ended() const noexcept { return ended_; }    // batches
  const std::vector<double>& values() const noexcept { return sum_; }
  std::span<double> sum() noexcept { return std::span(sum_).first(entries_); }
  // The rounding errors. Empty for batches of one round, whose sum is the leaf itself.
  std::span<double> rest() noexcept {
    return batches_.single() ? std::span<double>() : std::span(rest_).first(entries_);
  }

  // Ends a round. Returns whether it was the last round of the batch.
  bool close_round() noexcept {
    if (++rounds_ < length_) return false;
    ++ended_;
    begin(start_ + length_);
    return true;
  }
  void clear() noexcept {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    if (!batches_.single()) std::fill(rest_.begin(), rest_.end(), 0.0);
  }

  void write_sum(Archive& archive) const { archive.reals(std::span(sum_).first(entries_)); }
  void write_rest(Archive& archive) const {
    if (!batches_.single()) archive.reals(std::span(rest_).first(entries_));
  }
  void read_sum(ArchiveReader& archive) { archive.reals(sum()); }
  // `round` is the number of completed rounds of all batches. Throws StateError for an impossible
  // state.
  void read_rest(ArchiveReader& archive, std::uint64_t round) {
    if (!batches_.single()) archive.reals(rest());
    locate(round);
    const bool fresh = rounds_ == 0;
    const bool zero = std::all_of(sum_.begin(), sum_.end(), [](double x) { return x == 0.0; });
    if (!are_rests(sum_, rest_) || (fresh && !zero)) {
      throw StateError("state holds no sum of a batch");
    }
  }

 private:
  void begin(std::uint64_t start) noexcept {
    start_ = start;
    length_ = batches_.length(start);
    rounds_ = 0;
  }
  void locate(std::uint64_t round) noexcept {
    ended_ = batches_.growth == Growth::none ? round / batches_.first : 0;
    begin(ended_ * batches_.first);
    for (; round - start_ >= length_; ++ended_) begin(start_ + length_);
    rounds_ = round - start_;
  }

  Batches batches_;
  std::uint64_t start_ = 0;  // rounds before the current batch
  std::uint64_t length_;
  std::uint64_t rounds_ = 0;  // its completed rounds
  std::uint64_t ended_ = 0;
  std::size_t entries_;
  std::vector<double> sum_;
  std::vector<double> rest_;
};

}  // namespace dpoco
