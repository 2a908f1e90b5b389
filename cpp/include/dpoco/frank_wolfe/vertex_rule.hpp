#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/vertex_selection.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::frank_wolfe {

// Diameters of a decision set, which determine the sensitivity of scores; infinite if it does not
// depend on them.
struct Diameters {
  double l1 = 0.0;
  double l2 = 0.0;
  double linf = 0.0;
};

struct SelectionRuleSettings {
  mechanisms::SelectionNoise noise = mechanisms::SelectionNoise::gumbel;
  double scale = 0.0;  // c: update k has noise of scale b_k = c k^-exponent; 0: none
  double exponent = 0.0;
  Diameters diameters;
};

// Chooses the vertex that an update moves towards: the only way from data to decisions. Owns its
// mechanism.
class VertexRule {
 public:
  virtual ~VertexRule() = default;

  // Adds the sum of a full batch's leaves, factor times a row, to the earlier sums, and writes the
  // vertex of update k = 1, 2, ... `terms` is the batch times w_k; dividing the sum by it gives a
  // gradient estimate. Row and vertex have simd::padded(dimension()) entries, with zeros at the
  // end.
  virtual void next(std::uint64_t k, double terms, double factor, std::span<const double> row,
                    std::span<double> vertex) = 0;

  virtual void expect(std::uint64_t) noexcept {}  // number of calls of `next` that follow

  virtual Index dimension() const noexcept = 0;
  // The mechanism that draws: a sum or a selection.
  virtual const mechanisms::ContinualSum* sum() const noexcept { return nullptr; }
  virtual const SelectionRuleSettings* selection() const noexcept { return nullptr; }
  virtual const random::Source& source() const noexcept = 0;
  // The sum of the full batches' leaves: raw data, for audits.
  virtual std::vector<double> nonprivate_sum() const = 0;

  // A state has two parts, before and after that of the current batch.
  virtual void write_sum(Archive&) const {}
  virtual void write(Archive& archive) const = 0;
  virtual void read_sum(ArchiveReader&) {}
  // Throws StateError unless this is a possible state after `updates` updates.
  virtual void read(ArchiveReader& archive, std::uint64_t updates) = 0;
};

// Minimises the linear function that a private continual sum releases:
// docs/privacy/tree_frank_wolfe.md. The sum's horizon is the number of updates.
std::unique_ptr<VertexRule> make_sum_rule(std::shared_ptr<const domains::Domain> domain,
                                          mechanisms::ContinualSum sum);

// Selects the vertex privately for an exact sum: docs/privacy/polyhedral_frank_wolfe.md. O(d), or
// O(d) per vertex of a list. Throws std::invalid_argument for diameters below the domain's.
std::unique_ptr<VertexRule> make_selection_rule(std::shared_ptr<const domains::Domain> domain,
                                                SelectionRuleSettings settings,
                                                std::unique_ptr<random::Source> source);

}  // namespace dpoco::frank_wolfe
