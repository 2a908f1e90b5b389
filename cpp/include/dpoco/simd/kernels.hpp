#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dpoco::simd {

// One refill of the generator: 16 ChaCha20 blocks = 128 words of 64 bits = 128 variates.
inline constexpr std::size_t kSuperblock = 128;

// The number of entries to which a vector of n entries must be padded with zeros, so that kernels
// have no remainder.
constexpr std::size_t padded(std::size_t n) { return (n + 7) / 8 * 8; }

// The start of a refill: 256-bit key, 64-bit nonce, index of the first superblock.
struct Position {
  const std::uint32_t* key;  // 8 words
  std::uint64_t nonce;
  std::uint64_t superblock;
};

using FillWords = void (*)(Position, std::size_t superblocks, std::uint64_t* out);
using FillDoubles = void (*)(Position, std::size_t superblocks, double* out);

// The inner loops, compiled once per instruction set. Every variant gives the same bits: sums run
// over eight interleaved partial sums added in a fixed order, and no operations are contracted into
// FMAs. Kernels take pointers where other code takes spans: several arrays share one length, and
// calls through a table would pass the second word of every span in memory.
struct Kernels {
  const char* name;

  FillWords words;
  FillDoubles uniform;      // (j + 1/2) 2^-64, in (0, 1]
  FillDoubles gaussian;     // N(0, 1); Box-Muller on pairs, |z| <= 9.5
  FillDoubles exponential;  // Exp(1), full relative precision at both ends
  FillDoubles laplace;      // density exp(-|x|)/2
  FillDoubles gumbel;       // standard Gumbel, P(G <= x) = exp(-exp(-x))

  // Returns whether some x_i, or some |x_i| if the last argument is true, is outside [low, high].
  bool (*any_outside)(const double* x, std::size_t n, double low, double high, bool absolute);

  double (*dot)(const double* x, const double* y, std::size_t n);
  double (*sum)(const double* x, std::size_t n);
  // max |x_i|; NaN if any entry is NaN or infinite.
  double (*max_abs)(const double* x, std::size_t n);
  // sum (|x_i| * scale)^q for finite q >= 1; zero entries contribute zero.
  double (*abs_power_sum)(const double* x, std::size_t n, double scale, double q);
  // out_i = sign(x_i) (|x_i| * scale)^power for power > 0; out may alias x.
  void (*signed_power)(const double* x, std::size_t n, double scale, double power, double* out);
  // The same for power 2, without logarithms.
  void (*signed_square)(const double* x, std::size_t n, double scale, double* out);
  // out_i = exp(x_i); out may alias x.
  void (*exp)(const double* x, std::size_t n, double* out);
  // out_i = log(x_i) for x_i > 0; out may alias x.
  void (*log)(const double* x, std::size_t n, double* out);
  // out = a x; out may alias x.
  void (*scale)(double a, const double* x, std::size_t n, double* out);
  // out_i = -a, a or 0 as x_i is positive, negative or neither.
  void (*against)(double a, const double* x, std::size_t n, double* out);
  // out = from + a (to - from). Returns whether its bits differ from those of `from`.
  bool (*approach)(double a, const double* from, const double* to, std::size_t n, double* out);
  // y += a x
  void (*axpy)(double a, const double* x, std::size_t n, double* y);
  // sum += a x, compensated by rest, which collects the rounding errors.
  void (*accumulate)(double a, const double* x, std::size_t n, double* sum, double* rest);
  // sum += a x, with each product clamped to `limit` and rounded to a multiple of `grid`, a power
  // of two. limit is at most 2^51 grids.
  void (*accumulate_rounded)(double a, const double* x, double grid, double limit, std::size_t n,
                             double* sum);
  // prefix_i = out_i = base_i + scale z_i; base null counts as zero; out may be z.
  void (*extend)(const double* base, const double* z, double scale, std::size_t n, double* prefix,
                 double* out);
  // For each of `rounds` rows of length n, with its own factor a: as `accumulate`; then out = sum +
  // noise rounded to the nearest multiple of grid, a power of two, or 0 for no rounding.
  void (*release)(std::size_t rounds, const double* a, const double* g, const double* noise,
                  double grid, std::size_t n, double* sum, double* rest, double* out);
  // out_i = the integer nearest to scale z_i, or NaN if rounding errors or unknown digits leave it
  // undecided. partner_i completes the pair of z_i. Returns whether all were decided.
  bool (*round_gaussians)(double scale, const double* z, const double* partner, std::size_t n,
                          double* out);
  // As `release` on the lattice of multiples of `grid`, a power of two: sum += a g, rounded to the
  // lattice and clamped to `limit` multiples of it; out = sum + noise (given in multiples), rounded
  // to multiples of 2^shift grid, shift <= 30. |sum + noise| < 2^62 multiples, limit and |noise| at
  // most 2^50.
  void (*lattice_release)(std::size_t rounds, const double* a, const double* g, const double* noise,
                          double grid, double limit, unsigned shift, std::size_t n,
                          std::int64_t* sum, double* out);
  // As blt on integers z: the subtracted noise is rounded to integers, buffers are multiples of
  // `unit`, a power of two of at most 1; decay_j = 1 - keep_j. Buffers stay below 2^50 units.
  void (*lattice_blt)(std::size_t rounds, std::size_t n, double unit, std::size_t buffers,
                      const double* decay, const double* omega, double* state, double* total,
                      double* z);
  // Buffered linear Toeplitz noise (see mechanisms/noise_process.hpp), for each row z of length n:
  // w = scale z - sum_j omega_j S_j;  S_j <- keep_j S_j + w;  total += w;  z <- total.
  // state: `buffers` rows of length n.
  void (*blt)(std::size_t rounds, std::size_t n, double scale, std::size_t buffers,
              const double* keep, const double* omega, double* state, double* total, double* z);

  // Rows of a matrix in groups of eight: entry j of row 8 k + lane is groups[8 (k stride + j) +
  // lane]. out_r = <u, first n entries of row r>, for 8 count rows.
  void (*lane_dots)(const double* groups, std::size_t count, std::size_t stride, const double* u,
                    std::size_t n, double* out);
  // sums[8 j + lane] += weighted sum of entry j over the rows of that lane, j < n.
  void (*lane_sums)(const double* groups, std::size_t count, std::size_t stride,
                    const double* weights, std::size_t n, double* sums);
  // sums[8 (i n + j) + lane] += weighted sum of entries i times j, i <= j < n.
  void (*lane_grams)(const double* groups, std::size_t count, std::size_t stride,
                     const double* weights, std::size_t n, double* sums);
  // out_i = 1 / (1 + exp(-x_i)), and its derivative; out may alias x.
  void (*sigmoid)(const double* x, std::size_t n, double* out);
  void (*sigmoid_slope)(const double* x, std::size_t n, double* out);

  // out_i = x_i clipped to [low, high] and mapped to [0, 1], 0 if x_i is not finite; inverse = 1 /
  // (high - low). Returns how many entries this changed. out may alias x.
  std::uint64_t (*admit_losses)(const double* x, std::size_t n, double low, double high,
                                double inverse, double* out);
  double (*smallest)(const double* x, std::size_t n);  // n >= 1, no NaN
  // out_i = weights_i exp(-rate (x_i - base)), where null weights count as ones. Returns their sum.
  // out may alias weights or x.
  double (*tilt)(const double* weights, const double* x, double base, double rate, std::size_t n,
                 double* out);
  // out_i = a x_i + b; out may alias x.
  void (*affine)(double a, const double* x, double b, std::size_t n, double* out);
  // state_i <- max(state_i, 0) + gain - x_i; returns the largest of them.
  double (*cusum)(double gain, const double* x, std::size_t n, double* state);

  // Keyed BLAKE2b (RFC 7693) with digests of 16 bytes: out_r = two words for row r of `width`
  // words. Its message is the number first + r followed by the row. key: 4 words.
  void (*keyed_digests)(const std::uint64_t* key, std::uint64_t first, const std::uint64_t* rows,
                        std::size_t count, std::size_t width, std::uint64_t* out);

  // out -= r_0 r for each of `count` rows r of length n, `stride` apart, in order: the step of a
  // Cholesky factorisation that subtracts the rows above.
  void (*eliminate)(const double* rows, std::size_t stride, std::size_t count, std::size_t n,
                    double* out);
  // As admit_losses for each of `rounds` rows, but the results are rounded to multiples of grid, a
  // power of two, and added to `sum`.
  std::uint64_t (*admit_sums)(std::size_t rounds, const double* x, std::size_t n, double low,
                              double high, double inverse, double grid, double* sum);
};

// The best variant that this machine can run, or the one chosen by `select`.
const Kernels& kernels();

inline double dot(std::span<const double> x, std::span<const double> y) {
  assert(x.size() == y.size());
  return kernels().dot(x.data(), y.data(), x.size());
}

// Chooses "baseline", "avx2", "avx512" or "auto". Returns the chosen name. Throws
// std::invalid_argument for a name that this build or machine does not have. For tests of equality.
std::string select(const std::string& name);

}  // namespace dpoco::simd
