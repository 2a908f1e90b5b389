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

LeafRule::Leaf LeafRule::of(double weight, const double* at, const double* previous,
                            const double* features, double label, std::size_t width) const {
  const auto dot = simd::kernels().dot;
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return {};  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * dot(at, features, width);
  const double before = weight == 1.0 ? margin : multiplier * dot(previous, features, width);
  const double wanted =
      weight * loss_.derivative(margin, y) - (weight - 1.0) * loss_.derivative(before, y);
  const double scalar =
      std::isfinite(wanted) ? std::clamp(wanted, -scalar_bound_, scalar_bound_) : 0.0;
  const double factor = scalar * multiplier;
  // A subnormal factor is too coarse: rounding up could carry the leaf over its bound.
  const bool coarse = !(std::fabs(factor) >= std::numeric_limits<double>::min());
  return {coarse ? 0.0 : factor, loss_.value(margin, y)};
}

LeafRule::Leaf LeafRule::of_gradient(const double* at, const double* gradient,
                                     std::size_t width) const {
  const double multiplier = clipper_.multiplier(gradient);
  if (multiplier == 0.0) return {};
  return {multiplier, multiplier * simd::kernels().dot(at, gradient, width)};
}

}  // namespace dpoco::frank_wolfe
