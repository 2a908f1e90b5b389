#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// Private linear minimisation: a vertex v of a polytope with <direction, v> nearly least.
//   gumbel   the exponential mechanism: v with probability proportional to
//            exp(-rate <direction, v>);
//   laplace  the v with the least <direction, v> after Laplace noise of scale 1 / rate on each.
// On a box every coordinate is chosen on its own, between its two ends: for gumbel that is the same
// law. If a record moves all scores by amounts within an interval of length r, the vertex is
// (r rate)-private (docs/privacy/polyhedral_frank_wolfe.md). Noise has both its tails, and their
// number never depends on data.
class VertexSelection {
 public:
  virtual ~VertexSelection() = default;

  Index dimension() const noexcept { return dimension_; }

  // The direction must be finite and rate > 0. O(dimension); for a list of vertices, O(dimension) a
  // vertex.
  virtual void select(std::span<const double> direction, double rate, random::Source& source,
                      std::span<double> vertex) = 0;

  // Returns whether a source that only this object uses is where `selections` selections would
  // leave it.
  bool accounts_for(const random::Source& source, std::uint64_t selections) const noexcept;

 protected:
  VertexSelection(Index dimension, SelectionNoise noise, std::uint64_t draws)
      : dimension_(dimension), noise_(noise), draws_(draws) {}
  SelectionNoise noise() const noexcept { return noise_; }

 private:
  Index dimension_;
  SelectionNoise noise_;
  std::uint64_t draws_;  // variates per selection
};

// For an l_1 ball, a simplex, a box or a list of vertices, and gumbel or laplace; throws
// std::invalid_argument for anything else.
std::unique_ptr<VertexSelection> make_vertex_selection(
    std::shared_ptr<const domains::Domain> domain, SelectionNoise noise);

}  // namespace dpoco::mechanisms
