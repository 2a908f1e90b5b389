#pragma once

#include <cstdint>

#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "gibbs_envelope.hpp"

namespace dpoco::samplers {

// The proximal sampler (Lee, Shen, Tian 2021): y = u + sqrt(eta) normal, then an exact draw of u
// from its law given y, by rejection under the tangent at the old u. For convex F with Lipschitz
// constant A on a bounded body, also with kinks, eta = 1 / (16 n beta^2 A (A + lam R)). A step
// takes at most 3.5 proposals on average, and divides the relative entropy to the Gibbs law by (1 +
// beta lam eta)^2 or more. docs/privacy/gibbs_sampling.md has the proof.
class Proximal {
 public:
  Proximal(const domains::Body& body, double inverse_temperature, double regularization,
           double lipschitz);

  // The number of steps after which the total variation distance to the Gibbs law is at most
  // `tolerance`, from a start with relative entropy of at most 2 a^2 + 2 a sqrt(n), a = A sqrt(beta
  // / lam).
  static double steps(Index dimension, double radius, double inverse_temperature,
                      double regularization, double lipschitz, double tolerance);

  // Draws from the law with the tangent at the centre in place of F.
  void start(random::Source& source, losses::LossSum& sum, Vector& out);
  // Returns the number of proposals.
  std::uint64_t step(random::Source& source, losses::LossSum& sum, Vector& out);

 private:
  FlatSampler flat_;
  double beta_;
  double lam_;
  double variance_;  // eta
  Vector slope_;
  Vector mean_;
  Vector next_;
};

}  // namespace dpoco::samplers
