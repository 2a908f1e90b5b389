#pragma once

#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// Exact draws from N(mean, scale^2 I) conditioned on a body: the Gibbs law of linear losses. Space:
// one Gaussian per coordinate. Box: independent truncated normals. Ball: axial coordinate, radius,
// direction. Polytope: rejection, see the implementation. Every method is exact in real arithmetic.
// The number of variates is random (its law depends on mean and scale) and has a small mean.
class TruncatedGaussian {
 public:
  explicit TruncatedGaussian(domains::Body body);

  const domains::Body& body() const noexcept { return body_; }

  // out may be mean. scale > 0. No allocation.
  void sample(random::Source& source, std::span<const double> mean, double scale,
              std::span<double> out);

  // Returns whether log_mass is available: for space, ball and box.
  bool has_log_mass() const noexcept;
  // ln P(N(mean, scale^2 I) in body) with absolute error below 1e-12 (relative if it is large),
  // finite for any finite mean.
  double log_mass(std::span<const double> mean, double scale) const;

 private:
  domains::Body body_;
  std::vector<double> work_;
};

}  // namespace dpoco::samplers
