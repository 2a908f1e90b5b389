#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::mechanisms {

// Law of one fresh draw: order 2 is N(0, scale^2 I); scale 0 switches the noise off. With a grid,
// a power of two, draws of order 2 are rounded exactly to multiples of the grid, and all noise is
// given in integer multiples of the grid (docs/privacy/lattice.md).
struct NoiseLaw {
  double order = 2.0;
  double scale = 0.0;
  double grid = 0.0;
  bool on_lattice() const noexcept { return grid > 0.0; }
};

// Parameters of the buffered linear Toeplitz factorisation: one pair (decay, omega) a buffer.
// The column-normalised factorisation divides the rounds into blocks, and draws of later blocks are
// smaller. `ends` are the last rounds of the blocks; the draws of a block have the law's scale
// times its entry of `levels`. Without blocks all draws have the same scale.
struct BltParameters {
  std::vector<double> decay;
  std::vector<double> omega;
  std::vector<std::uint64_t> ends = {};
  std::vector<double> levels = {};
};

// Parameters of the banded factorisation. From row t on, column t of C holds the coefficients, the
// first of which is 1, divided by the level of round t. The draw of round t has the law's scale
// times that level. There is one level a round, and there are no more coefficients than rounds.
struct BandParameters {
  std::vector<double> coefficients = {};
  std::vector<double> levels = {};
};

enum class Factorisation { tree, toeplitz, blt, blt_normalised, banded };

// The factorisation that correlates the draws of a process, and the law of the draws, which on a
// lattice is in multiples of its grid.
struct Correlation {
  Factorisation factorisation = Factorisation::blt;
  NoiseLaw law;
  BltParameters blt = {};
  BandParameters band = {};
};

// The correlated noise of a private prefix sum. A continual sum is a factorisation A = B C of the
// all-ones lower-triangular matrix; the released noise after round t is row t of B times fresh
// draws. Each process below evaluates that row in a stream. Sensitivity (the largest column norm
// of C) and row norms of B: accounting/continual_sum.py, proof: docs/privacy/continual_sum.md.
class NoiseProcess {
 public:
  virtual ~NoiseProcess() = default;

  // Draws the variates that round t = 1, 2, ... and the rounds behind it need, as many as `out` has
  // rows of `dimension` entries, and writes the noise of each round to its row. Rounds must come in
  // order. The bits do not depend on how the rounds are split into calls.
  virtual void advance(std::uint64_t t, random::Source& source, std::span<double> out) = 0;
  // The settings of the process, read back for its description.
  virtual Correlation correlation() const = 0;
  virtual void write(Archive& archive) const = 0;
  // Restores a process just built; `round` is the last round whose noise was drawn.
  virtual void read(ArchiveReader& archive, std::uint64_t round) = 0;
  // Returns whether the source is where `round` rounds of this process alone would leave it.
  virtual bool matches(std::uint64_t round, const random::Source& source) const = 0;
};

// horizon >= 1 is the largest t. Throws std::invalid_argument for bad sizes or parameters.
// tree: one node draw per round, the node completed at t whose leaf is new; O(d log T) memory.
std::unique_ptr<NoiseProcess> make_tree(Index dimension, std::uint64_t horizon, NoiseLaw law);
// toeplitz: square root of A, all past draws kept: O(t d) per round and O(T d) memory.
std::unique_ptr<NoiseProcess> make_toeplitz(Index dimension, std::uint64_t horizon, NoiseLaw law);
// blt: buffered linear Toeplitz, one draw per round, O(buffers d) time and memory. With blocks, the
// last of which ends at the horizon, every column of C is divided by its level.
std::unique_ptr<NoiseProcess> make_blt(Index dimension, NoiseLaw law, BltParameters parameters);
// banded: keeps as many of the last draws as there are coefficients: O(band d) per round and
// memory.
std::unique_ptr<NoiseProcess> make_banded(Index dimension, NoiseLaw law, BandParameters parameters);
// No noise at all: the non-private baseline.
std::unique_ptr<NoiseProcess> make_silence(Index dimension);

}  // namespace dpoco::mechanisms
