#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

enum class AdditiveLaw { none, cube_exponential, gaussian, laplace };

// A mechanism that releases one vector with fresh randomness. The caller must bound the distance
// between two neighbouring vectors, in the norm that the law needs.
class VectorRelease {
 public:
  virtual ~VectorRelease() = default;

  // Writes the release of x to out; both have dimension() entries and may be the same. The number
  // of variates drawn does not depend on x.
  virtual void release(std::span<const double> x, random::Source& source,
                       std::span<double> out) = 0;
  // Returns whether the source is where exactly `releases` releases and `uniforms` uniform
  // variates would leave it.
  virtual bool accounts_for(const random::Source& source, std::uint64_t releases,
                            std::uint64_t uniforms) const = 0;
  // The parameter of the law: a scale, 0 without noise.
  virtual double strength() const noexcept = 0;
  virtual const char* law() const noexcept = 0;
  virtual double grid() const noexcept { return 0.0; }  // of exact integers; 0 for doubles
};

// Releases x + Z, rounded to a grid of 2^-12 to 2^-13 scales. The rounding is post-processing: it
// costs nothing and hides the floating-point grid of the noise, which would reveal x.
//   cube_exponential: the density of Z is proportional to exp(-max |z_i| / scale). Its pure epsilon
//     is the largest change of x in max-norm, divided by the scale. No tail is truncated.
//   laplace: independent entries of that scale, and the same epsilon with the l1 norm. No tail is
//     truncated.
//   gaussian: N(0, scale^2 I).
//   none: x itself, for baselines; the scale is ignored.
// With a grid, a power of two, the entries of x are fewer than 2^51 multiples of the grid, and
// those of Z are integer multiples of it whose probabilities have no error: the integers nearest to
// ideal Gaussian noise, or Pr[n] proportional to exp(-|n| grid / scale). cube_exponential has no
// grid. Proofs: docs/privacy/batch_share.md and lattice.md. Throws std::invalid_argument for
// dimension < 1, a scale that is not positive and finite, or a grid that does not suit the scale.
std::unique_ptr<VectorRelease> make_additive_noise(AdditiveLaw law, double scale, Index dimension,
                                                   double grid = 0.0);

}  // namespace dpoco::mechanisms
