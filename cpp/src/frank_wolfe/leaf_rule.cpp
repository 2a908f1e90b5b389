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

void LeafRule::add_scaled(double factor, const double* x, double* to, double* rest) const {
  const simd::Kernels& k = simd::kernels();
  const auto d = static_cast<std::size_t>(dimension());
  if (rest == nullptr) {
    k.axpy(factor, x, d, to);
  } else {
    k.accumulate(factor, x, d, to, rest);
  }
}

double LeafRule::add(double weight, const double* at, const double* previous,
                     const double* features, double label, double* to, double* rest) const {
  const simd::Kernels& k = simd::kernels();
  const auto d = static_cast<std::size_t>(dimension());
  const double multiplier = loss_.label_multiplier(label) * clipper_.multiplier(features);
  if (multiplier == 0.0) return 0.0;  // features may be NaN, so they are not multiplied by zero
  const double y = loss_.clip_label(label);
  const double margin = multiplier * k.dot(at, features, d);
  const double before = weight == 1.0 ? margin : multiplier * k.dot(previous, features, d);
  const double wanted =
      weight * loss_.derivative(margin, y) - (weight - 1.0) * loss_.derivative(before, y);
  if (std::isfinite(wanted)) {
    const double factor = std::clamp(wanted, -scalar_bound_, scalar_bound_) * multiplier;
    // A subnormal factor is too coarse: rounding up could carry the leaf over its bound.
    if (std::fabs(factor) >= std::numeric_limits<double>::min()) {
      add_scaled(factor, features, to, rest);
    }
  }
  return loss_.value(margin, y);
}

double LeafRule::add_gradient(const double* at, const double* gradient, double* to,
                              double* rest) const {
  const simd::Kernels& k = simd::kernels();
  const auto d = static_cast<std::size_t>(dimension());
  const double multiplier = clipper_.multiplier(gradient);
  if (multiplier == 0.0) return 0.0;
  add_scaled(multiplier, gradient, to, rest);
  return multiplier * k.dot(at, gradient, d);
}

}  // namespace dpoco::frank_wolfe
