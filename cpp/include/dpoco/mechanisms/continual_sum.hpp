#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/noise_process.hpp"
#include "dpoco/mechanisms/released.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// The lattice of a sum: summands are rounded to multiples of `grid`, a power of two, and clipped to
// `limit` multiples, so that sums are exact integers. With grid 0, sums are doubles.
struct Lattice {
  double grid = 0.0;
  double limit = 0.0;
};

// Private running sums of a stream of vectors: after round t, sum_{i <= t} g_i + noise_t, rounded
// to a grid of 2^-12 to 2^-13 noise scales. The rounding is post-processing: it costs nothing and
// hides the floating-point grid of the noise, which would reveal the sum. On a lattice there is no
// such grid to hide, since sums and noise are integers (docs/privacy/lattice.md). Summands may
// depend on all earlier releases. A clipper brings every summand into its bounds; without a clipper
// the caller must have bounded the summands (docs/privacy/continual_sum.md).
class ContinualSum {
 public:
  // Takes ownership of the source, so that no other mechanism draws from it. noise_scale is the
  // scale of the process and determines the grid; with 0, sums are not rounded.
  ContinualSum(Index dimension, std::uint64_t horizon, std::unique_ptr<NoiseProcess> process,
               double noise_scale, std::unique_ptr<random::Source> source,
               std::optional<losses::RecordClipper> clipper = std::nullopt, Lattice lattice = {});

  // Throws HorizonExceeded if fewer than `rounds` rounds are left, StateError in a forked child.
  void require(std::uint64_t rounds) const;

  // Adds g (a vector that is not finite counts as zero if there is a clipper) and writes
  // the released sum to out. Throws as `require(1)`, before any draw and with nothing changed.
  void push(std::span<const double> g, std::span<double> out);
  // As `push` of factor times row, which must be within the bounds, for an owner that lets one
  // thread in at a time. Row and out have `width()` entries, zeros behind the first `dimension()`.
  // The release that is returned refers to out.
  Released add_one(double factor, std::span<const double> row, std::span<double> out);
  std::size_t width() const noexcept { return sum_.size(); }
  // Announces that the owner's next calls ask for `rounds` sums, one at a time, so that the noise
  // of many rounds is drawn at once. Releases do not depend on it. `write` throws StateError while
  // noise of later rounds has been drawn.
  void expect(std::uint64_t rounds) noexcept { expected_ = rounds; }
  // Keeps other threads out for as long as it lives; throws RoundOrderError if one is in.
  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }
  // As `push` for each of the contiguous rows; throws as `require` of their number before the first
  // push. A caller that shares a lock with other users of this object must enter before it releases
  // that lock.
  void run(const Exclusive::Entry& entered, std::span<const double> values, std::span<double> out);

  Index dimension() const noexcept { return dimension_; }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return horizon_; }
  double noise_scale() const noexcept { return noise_scale_; }
  // The contents of the sum's description, read from the objects in use.
  Correlation correlation() const { return process_->correlation(); }
  const std::optional<losses::RecordClipper>& clipper() const noexcept { return clipper_; }
  const Lattice& lattice() const noexcept { return lattice_; }
  // The sum without noise: raw data, for audits only.
  std::vector<double> nonprivate_sum() const;
  random::Source& source() noexcept { return *source_; }
  const random::Source& source() const noexcept { return *source_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  void add(std::span<const double> rows, std::span<double> out);
  std::span<const double> draw(std::uint64_t rounds);  // noise, in rows of dimension() entries
  std::span<const double> next_noise();  // of one round: width() entries, zeros behind dimension()
  // One factor a row. The spans rows, noise and out are equally long.
  void release(std::span<const double> factors, std::span<const double> rows,
               std::span<const double> noise, std::span<double> out);
  bool on_lattice() const noexcept { return lattice_.grid > 0.0; }
  void split(std::vector<double>& sum, std::vector<double>& rest) const;

  Index dimension_;
  std::uint64_t horizon_;
  double noise_scale_;
  double grid_;
  SharedCount round_;
  std::unique_ptr<NoiseProcess> process_;
  std::unique_ptr<random::Source> source_;
  std::optional<losses::RecordClipper> clipper_;
  Lattice lattice_;
  unsigned shift_ = 0;               // releases are multiples of 2^shift_ grids
  std::vector<double> sum_;          // of `width()` entries
  std::vector<double> rest_;         // rounding error of sum_
  std::vector<std::int64_t> exact_;  // replaces sum_ and rest_ on a lattice
  std::vector<double> noise_;        // of the current rounds
  std::vector<double> rows_;     // copies of the summands, so that the caller's memory is read once
  std::vector<double> factors_;  // that clip the summands
  std::uint64_t expected_ = 0;   // rounds whose noise has not been drawn
  std::uint64_t ahead_ = 0;      // rounds to come whose noise has been drawn
  std::size_t next_ = 0;         // index in noise_ of the first of these rounds
  Exclusive exclusive_;
};

// Settings of a private running sum. A scale of 0 switches the noise off.
struct SumSettings {
  Index dimension = 1;
  std::uint64_t horizon = 1;
  Factorisation factorisation = Factorisation::blt;
  double order = 2.0;  // of the noise's norm
  double scale = 0.0;
  Lattice lattice;
  BltParameters blt;
  BandParameters band = {};
};
ContinualSum make_sum(const SumSettings& settings, std::unique_ptr<random::Source> source,
                      std::optional<losses::RecordClipper> clipper = std::nullopt);

}  // namespace dpoco::mechanisms
