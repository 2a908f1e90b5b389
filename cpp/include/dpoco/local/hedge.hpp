#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"

namespace dpoco::local {

// Exponential weights on unbiased loss estimates. With a fixed rate, w ~ exp(-rate C), where C are
// the cumulative estimates. Otherwise AdaHedge: rate = log K / D, where D is its start plus all mix
// gaps (de Rooij, van Erven, Grunwald and Koolen, 2014). O(K) per report, no allocation.
class Hedge {
 public:
  // fixed_rate 0 means AdaHedge. Throws std::invalid_argument unless K >= 1 and the rate is finite
  // and not negative.
  Hedge(std::size_t hypotheses, double fixed_rate);

  std::size_t hypotheses() const noexcept { return losses_.size(); }
  std::uint64_t reports() const noexcept { return reports_; }
  double start() const noexcept { return start_; }    // D_0
  double spread() const noexcept { return spread_; }  // D
  double gaps() const noexcept { return gaps_; }      // sum of mix gaps, whatever the rate
  double rate() const noexcept;                       // infinite only for AdaHedge with D = 0
  std::span<const double> losses() const noexcept { return losses_; }
  std::span<const double> weights() const noexcept { return weights_; }

  // Raises D_0 to `start` if it is smaller, and D by as much. Public, and before the reports of a
  // round.
  void raise_start(double start);

  // Adds one estimate of all K losses, in order. Entries that are not finite count as 0.
  void add(std::span<const double> estimate);
  // Adds reports of one coordinate: estimate_j = middle_j + [j = index] (2 bit - 1) scale. Throws
  // std::invalid_argument, before any change, if an entry is not a bit.
  void add_coordinate(std::size_t index, std::span<const double> middle, double scale,
                      std::span<const std::int64_t> bits);

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  void refresh() noexcept;
  double mix_loss(double low) noexcept;

  double fixed_rate_;
  double log_count_;
  double start_ = 0.0;
  double spread_ = 0.0;
  double gaps_ = 0.0;
  std::uint64_t reports_ = 0;
  std::vector<double> losses_;
  std::vector<double> weights_;
  std::vector<double> estimate_;
  std::vector<double> scratch_;
};

}  // namespace dpoco::local
