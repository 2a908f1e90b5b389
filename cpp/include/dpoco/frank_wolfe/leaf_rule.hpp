#pragma once

#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"

namespace dpoco::frank_wolfe {

// What one round adds to a gradient sum, its leaf w grad(theta) - (w - 1) grad(previous theta),
// clipped so that no record exceeds the declared bounds. Pointers are to dimension() doubles.
class LeafRule {
 public:
  // scalar_bound: |leaf scalar| <= this, for generalised linear losses.
  LeafRule(losses::GlmLoss loss, losses::RecordClipper clipper, double scalar_bound);

  Index dimension() const noexcept { return clipper_.dimension(); }
  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  double scalar_bound() const noexcept { return scalar_bound_; }

  // Each adds a leaf to `to` and returns the loss at `at`; 0, and nothing added, if the record is
  // not finite. For a linear loss the leaf is the gradient itself, whatever w. `rest` keeps what
  // rounding loses of a sum of several leaves, without which neighbouring streams drift apart; null
  // where `to` is zero before.
  double add(double weight, const double* at, const double* previous, const double* features,
             double label, double* to, double* rest) const;
  double add_gradient(const double* at, const double* gradient, double* to, double* rest) const;

 private:
  void add_scaled(double factor, const double* x, double* to, double* rest) const;

  losses::GlmLoss loss_;
  losses::RecordClipper clipper_;
  double scalar_bound_;
};

}  // namespace dpoco::frank_wolfe
