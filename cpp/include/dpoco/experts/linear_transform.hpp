#pragma once

#include <cstddef>
#include <span>

namespace dpoco::experts {

// A linear map M of loss vectors with a left inverse up to a common shift, which changes no choice
// among experts. Noise is added to sums of M l and reaches the losses through the inverse. For
// smooth losses this is far less noise than noise on the losses themselves (Agarwal et al.,
// "Differentially Private and Lazy Online Convex Optimization", on Lipschitz losses).
class LinearTransform {
 public:
  virtual ~LinearTransform() = default;

  virtual std::size_t inputs() const noexcept = 0;   // entries of a loss vector
  virtual std::size_t outputs() const noexcept = 0;  // entries of M l
  // out = M l, brought into the bounds of the declared sensitivity for every l: entries outside are
  // clipped, and a vector that is not finite counts as zero. Returns the number of entries changed.
  virtual std::size_t apply(std::span<const double> losses, std::span<double> out) = 0;
  // out = M^+ sums, up to a common shift.
  virtual void invert(std::span<const double> sums, std::span<double> out) = 0;
};

}  // namespace dpoco::experts
