#pragma once

#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// A Markov chain for N(mean, P^-1) conditioned on a box. Every sweep redraws the coordinates in
// order, each from its exact conditional law, a truncated normal. The law is exactly invariant, so
// only the mixing is approximate. A sweep takes O(n^2), because P (x - mean) is updated by one
// column of P per coordinate. No allocation after construction.
class CoordinateGibbs {
 public:
  // Throws std::invalid_argument unless the sizes agree, `precision` is symmetric with a positive
  // diagonal, and lower < upper. Bounds may be infinite. The caller must ensure positive
  // definiteness.
  CoordinateGibbs(const ConstRowMatrixRef& precision, const ConstVectorRef& mean,
                  const ConstVectorRef& lower, const ConstVectorRef& upper);

  Index dimension() const noexcept { return static_cast<Index>(deviation_.size()); }

  // Moves the chain to x, clamped to the box. A new chain starts at the clamped mean.
  void restart(std::span<const double> x);
  void sweep(random::Source& source);
  void current(std::span<double> out) const;

 private:
  void refresh();

  // Coordinates are in units of the conditional standard deviations, so the precision has a unit
  // diagonal.
  RowMatrix precision_;
  Vector deviation_;
  Vector mean_;
  Vector lower_;
  Vector upper_;
  Vector box_lower_;  // in the caller's units
  Vector box_upper_;
  Vector state_;
  Vector force_;  // precision_ (state_ - mean_)
  std::uint64_t sweeps_ = 0;
};

}  // namespace dpoco::samplers
