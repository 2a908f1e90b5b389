#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::frank_wolfe {

struct StatisticsSettings {
  std::uint64_t records = 0;
  std::uint64_t size = 0;    // entries of the sum
  double weight = 0.0;       // factor of the vectors y x
  double noise_scale = 0.0;  // of every entry; 0 for no noise
};

// The sum of (x x', weight y x) over the clipped records of a data set, released once with Gaussian
// noise on each entry: upper triangle, off-diagonal entries times sqrt(2), then the vector. The
// sums are compensated, because plain sums of two data sets that differ in one record could drift
// apart.
class SufficientStatistics {
 public:
  // Throws std::invalid_argument for settings that do not fit the problem.
  SufficientStatistics(const losses::RecordClipper& clipper, losses::GlmLoss loss,
                       StatisticsSettings settings, std::unique_ptr<random::Source> source);

  // Adds the rows as records and reads each once. A record that is not finite is a zero record.
  // Throws StateError in a forked child, RoundOrderError for more records than declared.
  void add(std::span<const double> features, std::span<const double> labels);
  // Makes the only release. Throws RoundOrderError unless all records are in, and at the second
  // call.
  void release(std::span<double> out);
  // The sum without the release's noise, for audits. It reads private data and is not a release.
  void nonprivate_sum(std::span<double> out) const;

  std::size_t dimension() const noexcept { return row_.size(); }
  std::size_t size() const noexcept { return sum_.size(); }
  const random::Source& source() const noexcept { return *source_; }

 private:
  losses::RecordClipper clipper_;
  losses::GlmLoss loss_;
  StatisticsSettings settings_;
  std::unique_ptr<random::Source> source_;
  std::unique_ptr<mechanisms::VectorRelease> noise_;
  std::uint64_t added_ = 0;
  bool released_ = false;
  std::vector<double> row_;
  std::vector<double> products_;
  std::vector<double> sum_;
  std::vector<double> rest_;  // compensation of rounding errors
};

}  // namespace dpoco::frank_wolfe
