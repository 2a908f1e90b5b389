#pragma once

#include <cstddef>
#include <span>

namespace dpoco::experts {

// A linear map M of loss vectors with a left inverse up to a common shift, which no choice among
// experts can see. Noise is added to sums of M l and reaches the losses through the inverse: for
// smooth losses far less of it than noise on the losses themselves (Agarwal et al.,
// "Differentially Private and Lazy Online Convex Optimization", on Lipschitz losses).
class LinearTransform {
 public:
  virtual ~LinearTransform() = default;

  virtual std::size_t inputs() const noexcept = 0;   // entries of a loss vector
  virtual std::size_t outputs() const noexcept = 0;  // entries of M l
  // out = M l, brought into the bounds that the sensitivity is declared for, whatever l is: entries
  // out of bounds are clipped, a vector that is not finite counts as zero. Returns the number of
  // entries changed by that.
  virtual std::size_t apply(std::span<const double> losses, std::span<double> out) = 0;
  // out = M^+ sums, up to a common shift.
  virtual void invert(std::span<const double> sums, std::span<double> out) = 0;
};

}  // namespace dpoco::experts
