#pragma once

#include <span>

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"

namespace dpoco::frank_wolfe {

// A round's summand in a gradient sum, the leaf w grad(theta) - (w - 1) grad(previous theta),
// clipped so that no record exceeds the declared bounds.
class LeafRule {
 public:
  // scalar_bound: |leaf scalar| <= this, for generalised linear losses.
  LeafRule(losses::GlmLoss loss, losses::RecordClipper clipper, double scalar_bound);

  Index dimension() const noexcept { return clipper_.dimension(); }
  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  double scalar_bound() const noexcept { return scalar_bound_; }

  // The leaf is `factor` times the record. `factor` is 0 if an entry of the record is not finite.
  struct Leaf {
    double factor = 0.0;
    double loss = 0.0;  // the loss at `at`
  };
  // All vectors have the same length, and may have zeros after their dimension() entries. For a
  // linear loss the leaf is the gradient itself, whatever the weight.
  Leaf of(double weight, std::span<const double> at, std::span<const double> previous,
          std::span<const double> features, double label) const;
  Leaf of_gradient(std::span<const double> at, std::span<const double> gradient) const;

 private:
  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  double scalar_bound_;
};

}  // namespace dpoco::frank_wolfe
