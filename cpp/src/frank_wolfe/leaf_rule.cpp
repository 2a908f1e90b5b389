#include "dpoco/frank_wolfe/leaf_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

LeafRule::LeafRule(losses::GlmLoss loss, losses::RecordClipper clipper, double scalar_bound)
    : loss_(loss), clipper_(std::move(clipper)), scalar_bound_(scalar_bound) {
  if (!(scalar_bound >= 0.0)) throw std::invalid_argument("scalar_bound must be at least 0");
}

LeafRule::Leaf LeafRule::of(double weight, std::span<const double> at,
                            std::span<const double> previous, std::span<const double> features,
                            double label) const {
  using simd::dot;
  const auto d = static_cast<std::size_t>(dimension());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features.first(d));
  if (multiplier == 0.0) return {};  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * dot(at, features);
  const double before = weight == 1.0 ? margin : multiplier * dot(previous, features);
  const double wanted =
      weight * loss_.derivative(margin, y) - (weight - 1.0) * loss_.derivative(before, y);
  const double scalar =
      std::isfinite(wanted) ? std::clamp(wanted, -scalar_bound_, scalar_bound_) : 0.0;
  const double factor = scalar * multiplier;
  // A subnormal factor is too coarse: rounding up could carry the leaf over its bound.
  const bool coarse = !(std::fabs(factor) >= std::numeric_limits<double>::min());
  return {coarse ? 0.0 : factor, loss_.value(margin, y)};
}

LeafRule::Leaf LeafRule::of_gradient(std::span<const double> at,
                                     std::span<const double> gradient) const {
  const double multiplier =
      clipper_.multiplier(gradient.first(static_cast<std::size_t>(dimension())));
  if (multiplier == 0.0) return {};
  return {multiplier, multiplier * simd::dot(at, gradient)};
}

}  // namespace dpoco::frank_wolfe
