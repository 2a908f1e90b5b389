#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dpoco/experts/linear_transform.hpp"

namespace dpoco::experts {

// Transforms of the values of a Lipschitz function on a net of points, in row-major order. Each
// bounds the differences of values at nearby points by `limits` (one per axis: the Lipschitz
// constant times the spacing). So its result moves by at most the sensitivity that
// accounting/nets.py declares, whatever the values are. A vector with an entry that is not finite
// counts as zero. Proofs: docs/privacy/lipschitz.md. No allocation after construction.
class NetTransform : public LinearTransform {
 public:
  // The contents of its description: the name of the transform, and points and limits of each axis.
  virtual const char* name() const noexcept = 0;
  virtual std::vector<std::size_t> counts() const = 0;
  virtual std::vector<double> limits() const = 0;
};

// Differences of neighbouring points of an interval; the inverse is a running sum from 0. Requires
// points >= 2. O(points).
std::shared_ptr<NetTransform> make_increments(std::size_t points, double limit);

// White coefficients of the Laplacian of a rows x columns grid with a Neumann boundary: cosine
// coefficient (p, q) of the field whose edge differences are nearest to the bounded ones, times the
// root of its eigenvalue. Leaves out (0, 0), which is 0. Requires rows, columns >= 2. O(rows
// columns log(rows columns)) for sizes with small prime factors.
std::shared_ptr<NetTransform> make_grid_laplacian(std::size_t rows, std::size_t columns,
                                                  double row_limit, double column_limit);

// Differences to the parent of a point, with 2^levels + 1 points per axis and one or two axes. The
// parent is the point whose indices have the lowest bit set in any of them cleared. Leaves out the
// origin. Agarwal et al., "Differentially Private and Lazy Online Convex Optimization". O(points).
std::shared_ptr<NetTransform> make_parent(unsigned levels, const std::vector<double>& limits);

}  // namespace dpoco::experts
