#pragma once

#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::noise {

using random::Source;

// Gamma(shape, scale 1), shape > 0, by Marsaglia and Tsang's exact rejection (2000); below shape 1
// Gamma(shape + 1) U^(1/shape). Expected draws per variate below 1.1 pairs.
double gamma(Source& source, double shape);
// Fills `out` with the same values as repeated calls of `gamma`.
void gammas(Source& source, double shape, std::span<double> out);

// out = scale times independent standard normals.
void gaussian(Source& source, double scale, std::span<double> out);

// Vectors Z with density proportional to exp(-||Z||_r^2 / (2 scale^2)), r in [1, inf]:
// a direction from the cone measure of the l_r sphere times a radius whose square is
// Gamma(d/2, 2 scale^2). Han et al. Lemma 2.1, corrected. O(d) per vector, no allocation.
class GeneralizedGaussian {
 public:
  // Throws std::invalid_argument for dimension < 1, order < 1 or scale < 0.
  GeneralizedGaussian(Index dimension, double order, double scale);

  void sample(Source& source, std::span<double> out);

  // Returns whether a source that only this sampler uses can be where `vectors` samples leave
  // it. The check is exact except for the number of attempts in the gamma rejections, which it only
  // bounds from below.
  bool accounts_for(const Source& source, std::uint64_t vectors) const noexcept;

  Index dimension() const noexcept { return dimension_; }
  double order() const noexcept { return order_; }
  double scale() const noexcept { return scale_; }

 private:
  void sample_magnitudes(Source& source);

  Index dimension_;
  double order_;
  double scale_;
  std::vector<double> magnitudes_;
  std::vector<std::uint64_t> signs_;
};

}  // namespace dpoco::noise
