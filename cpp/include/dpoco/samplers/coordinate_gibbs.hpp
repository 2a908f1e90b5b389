#pragma once

#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// A Markov chain whose law is N(mean, P^-1) conditioned on a box: every sweep redraws the
// coordinates in order, each from its exact conditional law, a truncated normal. The law is exactly
// invariant; only mixing is approximate. A sweep is O(n^2): P (x - mean) follows by one column of P
// a coordinate. No allocation after construction.
class CoordinateGibbs {
 public:
  // Throws std::invalid_argument unless the sizes agree, `precision` is symmetric with a positive
  // diagonal, and lower < upper. Bounds may be infinite. Positive definiteness is the caller's
  // duty.
  CoordinateGibbs(const ConstRowMatrixRef& precision, const ConstVectorRef& mean,
                  const ConstVectorRef& lower, const ConstVectorRef& upper);

  Index dimension() const noexcept { return static_cast<Index>(deviation_.size()); }

  // Moves the chain to x, clamped to the box. Starts at the mean, clamped.
  void restart(std::span<const double> x);
  void sweep(random::Source& source);
  void current(std::span<double> out) const;

 private:
  void refresh();

  // In units of the conditional standard deviations, so that the precision has a unit diagonal.
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
