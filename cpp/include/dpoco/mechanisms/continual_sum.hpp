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

// Where a sum on a lattice lives: summands are rounded to multiples of grid, a power of two, and
// kept within `limit` multiples, so that sums are exact integers. grid 0: sums are doubles.
struct Lattice {
  double grid = 0.0;
  double limit = 0.0;
};

// Private running sums of a stream of vectors: after round t, sum_{i <= t} g_i + noise_t, rounded
// to a grid of 2^-12 to 2^-13 noise scales. The rounding is post-processing: it costs nothing and
// hides the floating-point grid of the noise, which would show what was added to it. On a lattice
// nothing is left to hide: sums and noise are integers (docs/privacy/lattice.md). The
// summands may depend on everything released before. With a clipper every summand is brought into
// its bounds here; without one the caller has bounded it already (docs/privacy/continual_sum.md).
class ContinualSum {
 public:
  // Owns the source: its draws belong to this sum alone. noise_scale is the process's scale, from
  // which the grid follows; 0 leaves sums as they are.
  ContinualSum(Index dimension, std::uint64_t horizon, std::unique_ptr<NoiseProcess> process,
               double noise_scale, std::unique_ptr<random::Source> source,
               std::optional<losses::RecordClipper> clipper = std::nullopt, Lattice lattice = {});

  // Throws HorizonExceeded if fewer than `rounds` rounds are left, StateError in a forked child.
  void require(std::uint64_t rounds) const;

  // Adds g (a vector that is not finite counts as zero if there is a clipper) and writes
  // the released sum to out. Throws as `require(1)`, before any draw and with nothing changed.
  void push(std::span<const double> g, std::span<double> out);
  // push of factor times a row that is within its bounds, for an owner that lets one thread in at a
  // time. Both vectors have `width()` entries, zeros behind the first `dimension()`. The release is
  // what was written to out.
  Released add_one(double factor, std::span<const double> row, std::span<double> out);
  std::size_t width() const noexcept { return sum_.size(); }
  // Says that so many sums are asked for before anything else, one at a time: the noise of many is
  // drawn at once. Releases do not depend on it; a state in between is refused.
  void expect(std::uint64_t rounds) noexcept { expected_ = rounds; }
  // Keeps other threads out for as long as it lives; throws RoundOrderError if one is in.
  [[nodiscard]] Exclusive::Entry enter() const { return exclusive_.enter(); }
  // push for contiguous rows; throws as `require` of their number before the first. A caller that
  // shares a lock with other users of this object enters before it gives that lock up.
  void run(const Exclusive::Entry& entered, std::span<const double> values, std::span<double> out);

  Index dimension() const noexcept { return dimension_; }
  std::uint64_t round() const noexcept { return round_; }
  std::uint64_t horizon() const noexcept { return horizon_; }
  double noise_scale() const noexcept { return noise_scale_; }
  // Contents of its description, read from the objects in use.
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
  std::span<const double> next_noise();  // of a round, with zeros behind: width() entries
  // A factor for each row, all as long as `out` is for each round.
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
  std::vector<double> rest_;         // what rounding has lost of it
  std::vector<std::int64_t> exact_;  // on a lattice, in their place
  std::vector<double> noise_;        // of the rounds in work
  std::vector<double> rows_;  // private copies of their summands: the caller's memory is read once
  std::vector<double> factors_;  // that bring these into their bounds
  std::uint64_t expected_ = 0;   // rounds whose noise has not been drawn
  std::uint64_t ahead_ = 0;      // rounds to come whose noise has been drawn
  std::size_t next_ = 0;         // where that of the first of them is
  Exclusive exclusive_;
};

// Parts of a private running sum. scale 0: no noise.
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
