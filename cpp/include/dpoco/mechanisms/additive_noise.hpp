#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

enum class AdditiveLaw { none, cube_exponential, gaussian, laplace };

// The private release of one vector: once, by fresh randomness. How far two neighbouring vectors
// may be apart, and in which norm, is for the caller to bound.
class VectorRelease {
 public:
  virtual ~VectorRelease() = default;

  // Writes the release of x to out; both have dimension() entries and may be the same. The number
  // of variates drawn does not depend on x.
  virtual void release(std::span<const double> x, random::Source& source,
                       std::span<double> out) = 0;
  // Whether the source is where `releases` releases and `uniforms` uniforms, and nothing else,
  // leave it.
  virtual bool accounts_for(const random::Source& source, std::uint64_t releases,
                            std::uint64_t uniforms) const = 0;
  // The parameter of the law: a scale, 0 without noise, or the epsilon of a response.
  virtual double strength() const noexcept = 0;
  virtual const char* law() const noexcept = 0;
  virtual double grid() const noexcept { return 0.0; }  // of exact integers; 0 for doubles
};

// x + Z, rounded to a grid of 2^-12 to 2^-13 scales. The rounding is post-processing: it costs
// nothing and hides the floating-point grid of the noise, which would show what was added to it.
//   cube_exponential: density of Z proportional to exp(-max |z_i| / scale); costs the largest
//     change of x in max-norm over the scale, purely. Laplace: the same in l1, independent entries
//     of that scale. Both have all of their tails.
//   gaussian: N(0, scale^2 I).
//   none: x itself, for baselines; the scale is ignored.
// With a grid, a power of two, x consists of fewer than 2^51 multiples of it and Z of integers
// times it, with no error in any probability: the nearest ones to ideal Gaussian noise, or Pr[n]
// proportional to exp(-|n| grid / scale). There is none for the cube.
// Proofs: docs/privacy/batch_share.md and lattice.md. Throws std::invalid_argument for dimension <
// 1, a scale that is not positive and finite, or a grid that does not suit the scale.
std::unique_ptr<VectorRelease> make_additive_noise(AdditiveLaw law, double scale, Index dimension,
                                                   double grid = 0.0);

}  // namespace dpoco::mechanisms
