#pragma once

#include <cstdint>

#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "gibbs_line.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

// The start of a chain and its metric: u = centre + L^-T z with L L' = precision.
struct Whitening {
  explicit Whitening(Index dimension) : centre(dimension), factor(dimension) {}

  Vector centre;
  Cholesky factor;
};

// Hit-and-run: draws a uniform direction in whitened coordinates, then a point on the line exactly.
// The Gibbs law is invariant for every metric. The metric decides how fast the chain forgets its
// start.
class HitAndRun {
 public:
  HitAndRun(domains::Body body, double inverse_temperature, double regularization,
            double tolerance);

  // ceil(2 n (ln n + 2 ln(1 / tolerance)))
  static std::uint64_t steps(Index dimension, double tolerance);

  // Runs the chain from the centre; returns the number of steps.
  std::uint64_t sample(random::Source& source, losses::LossSum& sum, const Whitening& metric,
                       Vector& out);

  // Makes one step from `out`. The whitened coordinates are kept from the step before; `resume`
  // computes them.
  void step(random::Source& source, losses::LossSum& sum, const Whitening& metric, Vector& out);
  void resume(const Whitening& metric, const Vector& out);

 private:
  domains::Body body_;
  LineSampler line_;
  std::uint64_t steps_;
  Vector direction_;  // whitened
  Vector step_;
  Vector position_;  // whitened
};

}  // namespace dpoco::samplers
