#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::losses {

enum class GlmKind : std::uint8_t { squared, logistic, huber, table };

// A convex function f of one variable with f(0) = `at_zero`. Its derivative is linear between
// equally spaced knots of [-reach, reach] and constant beyond, so f, f' and f'' match exactly.
class OneVariableTable {
 public:
  // slopes: f' at the knots, at least two, finite, not decreasing. Throws std::invalid_argument.
  OneVariableTable(std::span<const double> slopes, double reach, double at_zero)
      : slopes_(slopes.begin(), slopes.end()), values_(slopes.size()), reach_(reach) {
    const bool convex = std::is_sorted(slopes_.begin(), slopes_.end());
    if (slopes_.size() < 2 || !convex || !(reach > 0.0) || !std::isfinite(reach) ||
        !std::isfinite(slopes_.front()) || !std::isfinite(slopes_.back())) {
      throw std::invalid_argument("slopes must be finite and must not decrease");
    }
    width_ = 2.0 * reach / static_cast<double>(slopes_.size() - 1);
    for (std::size_t i = 1; i < values_.size(); ++i) {
      values_[i] = values_[i - 1] + 0.5 * width_ * (slopes_[i - 1] + slopes_[i]);
    }
    const double shift = at_zero - value(0.0);
    for (double& each : values_) each += shift;
  }

  double value(double t) const noexcept {
    const Place at = find(t);
    const double bend = 0.5 * (slopes_[at.knot + 1] - slopes_[at.knot]) * at.part;
    const double inside = values_[at.knot] + at.part * width_ * (slopes_[at.knot] + bend);
    return inside + (t - std::clamp(t, -reach_, reach_)) * (t < 0.0 ? lowest() : highest());
  }
  double derivative(double t) const noexcept {
    const Place at = find(t);
    return slopes_[at.knot] + at.part * (slopes_[at.knot + 1] - slopes_[at.knot]);
  }
  double curvature(double t) const noexcept {
    if (!(std::fabs(t) <= reach_)) return 0.0;
    const Place at = find(t);
    return (slopes_[at.knot + 1] - slopes_[at.knot]) / width_;
  }
  double lowest() const noexcept { return slopes_.front(); }
  double highest() const noexcept { return slopes_.back(); }
  double largest_curvature() const noexcept {
    double most = 0.0;
    for (std::size_t i = 1; i < slopes_.size(); ++i) {
      most = std::fmax(most, (slopes_[i] - slopes_[i - 1]) / width_);
    }
    return most;
  }

 private:
  struct Place {
    std::size_t knot;  // the last knot that is not above
    double part;       // share of the way to the next, in [0, 1]
  };
  Place find(double t) const noexcept {
    const double last = static_cast<double>(slopes_.size() - 1);
    const double steps = std::fmax(0.0, std::fmin((t + reach_) / width_, last));  // NaN: last
    const double knot = std::fmin(std::floor(steps), last - 1.0);
    return {static_cast<std::size_t>(knot), steps - knot};
  }

  std::vector<double> slopes_;
  std::vector<double> values_;
  double reach_;
  double width_ = 0.0;
};

// Loss weight * l(z, y) of a margin z = <theta, x> and a label y. No data raise an error: for any
// y, clip_label(y) is a finite label in range, and label_multiplier(y) says whether the record
// counts.
struct GlmLoss {
  GlmKind kind = GlmKind::squared;
  double weight = 1.0;
  // Huber: the residual beyond which the loss is linear. Logistic: the largest slope, see
  // `damping`; 1 for no damping.
  double threshold = 1.0;
  double label_low = -1.0;
  double label_high = 1.0;
  // Table: l = f(z - y) or, for labels in [0, 1], y f(z) + (1 - y) f(-z).
  std::shared_ptr<const OneVariableTable> table = {};
  bool residual = true;

  // squared (z - y)^2; logistic log(1 + e^z) - y z; Huber r^2/2, then linear.
  double value(double z, double y) const noexcept {
    const double r = z - y;
    switch (kind) {
      case GlmKind::squared:
        return weight * (r * r);
      case GlmKind::logistic:
        return weight * (elementary::softplus(z) - y * z);
      case GlmKind::table:
        return residual ? table->value(r) : y * table->value(z) + (1.0 - y) * table->value(-z);
      case GlmKind::huber:
        break;
    }
    const double magnitude = std::fabs(r);
    return weight *
           (magnitude <= threshold ? 0.5 * r * r : threshold * (magnitude - 0.5 * threshold));
  }

  // Logistic loss: the factor of the slope q - y at the probability q that keeps it at most
  // `threshold` for all labels in [0, 1]. It is positive, so the damped slope has mean 0 where the
  // loss's own slope has.
  double damping(double z) const noexcept {
    return threshold < 1.0 ? std::fmin(1.0, threshold / elementary::sigmoid(std::fabs(z))) : 1.0;
  }

  // dl/dz, damped.
  double derivative(double z, double y) const noexcept {
    const double r = z - y;
    switch (kind) {
      case GlmKind::squared:
        return weight * (2.0 * r);
      case GlmKind::logistic:
        return weight * (damping(z) * (elementary::sigmoid(z) - y));
      case GlmKind::table:
        return residual ? table->derivative(r)
                        : y * table->derivative(z) - (1.0 - y) * table->derivative(-z);
      case GlmKind::huber:
        break;
    }
    return weight * (r > threshold ? threshold : (r < -threshold ? -threshold : r));
  }

  // d^2 l/dz^2. Huber: 1 inside the threshold, 0 outside. Damped: the mean over labels of the law
  // that the margin predicts.
  double curvature(double z, double y) const noexcept {
    switch (kind) {
      case GlmKind::squared:
        return weight * 2.0;
      case GlmKind::logistic: {
        const double s = elementary::sigmoid(z);
        // uses sigmoid(-z), because 1 - s cancels for large z
        return weight * (damping(z) * (s * elementary::sigmoid(-z)));
      }
      case GlmKind::table:
        return residual ? table->curvature(z - y)
                        : y * table->curvature(z) + (1.0 - y) * table->curvature(-z);
      case GlmKind::huber:
        break;
    }
    return std::fabs(z - y) <= threshold ? weight : 0.0;
  }

  // The largest |dl/dz| and d^2 l/dz^2 over margins |z| <= margin and labels in range. Both bounds
  // are attained. An infinite margin is allowed.
  double largest_slope(double margin) const noexcept {
    const double far = std::fmax(std::fabs(label_low), std::fabs(label_high));
    switch (kind) {
      case GlmKind::squared:
        return weight * (2.0 * (margin + far));
      case GlmKind::logistic: {
        const double high = std::isinf(margin) ? 1.0 : elementary::sigmoid(margin);
        const double low = std::isinf(margin) ? 0.0 : elementary::sigmoid(-margin);
        return weight * std::fmin(threshold, std::fmax(high - label_low, label_high - low));
      }
      case GlmKind::table:
        return std::fmax(std::fabs(table->lowest()), std::fabs(table->highest()));
      case GlmKind::huber:
        break;
    }
    return weight * std::fmin(threshold, margin + far);
  }
  double largest_curvature() const noexcept {
    if (kind == GlmKind::logistic) return 0.25 * weight;
    if (kind == GlmKind::table) return table->largest_curvature();
    return kind == GlmKind::squared ? 2.0 * weight : weight;
  }

  // The least value over all margins.
  double minimum(double y) const noexcept {
    if (kind != GlmKind::logistic) return 0.0;
    const auto entropy = [](double q) { return q > 0.0 ? -q * elementary::log(q) : 0.0; };
    return weight * (entropy(y) + entropy(1.0 - y));
  }

  // Nearest label in [label_low, label_high]; NaN gives label_low.
  double clip_label(double y) const noexcept {
    const double below = y < label_high ? y : label_high;
    return y >= label_low ? below : label_low;
  }

  // 0 for a label that is not finite, which makes the round a zero record; 1 otherwise.
  static double label_multiplier(double y) noexcept { return std::isfinite(y) ? 1.0 : 0.0; }
};

}  // namespace dpoco::losses
