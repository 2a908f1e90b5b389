#include "dpoco/experts/net_transform.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "net_bounds.hpp"

namespace dpoco::experts {
namespace {

class Increments final : public NetTransform {
 public:
  Increments(std::size_t points, double limit) : points_(points), limit_(limit) {
    if (points < 2) throw std::invalid_argument("increments need at least two points");
    check_limit(limit);
  }

  const char* name() const noexcept override { return "increments"; }
  std::vector<std::size_t> counts() const override { return {points_}; }
  std::vector<double> limits() const override { return {limit_}; }
  std::size_t inputs() const noexcept override { return points_; }
  std::size_t outputs() const noexcept override { return points_ - 1; }

  std::size_t apply(std::span<const double> losses, std::span<double> out) override {
    assert(losses.size() == inputs() && out.size() == outputs());
    if (!all_finite(losses)) return zero_round(*this, out);
    std::size_t changed = 0;
    for (std::size_t i = 0; i + 1 < points_; ++i) {
      const double step = losses[i + 1] - losses[i];
      changed += exceeds(step, limit_);
      out[i] = bounded(step, limit_);
    }
    return changed;
  }

  void invert(std::span<const double> sums, std::span<double> out) override {
    assert(sums.size() == outputs() && out.size() == inputs());
    out[0] = 0.0;
    for (std::size_t i = 0; i + 1 < points_; ++i) out[i + 1] = out[i] + sums[i];
  }

 private:
  std::size_t points_;
  double limit_;
};

class Parent final : public NetTransform {
 public:
  Parent(unsigned levels, const std::vector<double>& limits) : axes_(limits) {
    const std::size_t axes = limits.size();
    if (levels > 24 || axes < 1 || axes > 2 || (axes == 2 && levels > 12)) {
      throw std::invalid_argument("the net has one axis and at most 24 levels, or two and 12");
    }
    for (const double limit : limits) check_limit(limit);
    const std::uint32_t side = (std::uint32_t{1} << levels) + 1;
    side_ = side;
    const std::uint32_t rows = axes == 2 ? side : 1;
    for (std::uint32_t i = 0; i < rows; ++i) {
      for (std::uint32_t j = 0; j < side; ++j) {
        const std::uint32_t both = i | j;
        const std::uint32_t bit = both & (~both + 1);
        // With one axis, the first limit is also the last.
        const double down = i & bit ? limits.front() * bit : 0.0;
        const double across = j & bit ? limits.back() * bit : 0.0;
        parents_.push_back((i & ~bit) * side + (j & ~bit));
        limits_.push_back(std::sqrt(down * down + across * across));
      }
    }
  }

  const char* name() const noexcept override { return "parent"; }
  std::vector<std::size_t> counts() const override {
    return std::vector<std::size_t>(axes_.size(), side_);
  }
  std::vector<double> limits() const override { return axes_; }
  std::size_t inputs() const noexcept override { return parents_.size(); }
  std::size_t outputs() const noexcept override { return parents_.size() - 1; }

  std::size_t apply(std::span<const double> losses, std::span<double> out) override {
    assert(losses.size() == inputs() && out.size() == outputs());
    if (!all_finite(losses)) return zero_round(*this, out);
    std::size_t changed = 0;
    for (std::size_t i = 1; i < parents_.size(); ++i) {
      const double step = losses[i] - losses[parents_[i]];
      changed += exceeds(step, limits_[i]);
      out[i - 1] = bounded(step, limits_[i]);
    }
    return changed;
  }

  // A parent comes before its children in row-major order.
  void invert(std::span<const double> sums, std::span<double> out) override {
    assert(sums.size() == outputs() && out.size() == inputs());
    out[0] = 0.0;
    for (std::size_t i = 1; i < parents_.size(); ++i) out[i] = sums[i - 1] + out[parents_[i]];
  }

 private:
  std::vector<double> axes_;  // the limit of a step along each axis
  std::size_t side_ = 0;      // points along each axis
  std::vector<std::uint32_t> parents_;
  std::vector<double> limits_;
};

}  // namespace

std::shared_ptr<NetTransform> make_increments(std::size_t points, double limit) {
  return std::make_shared<Increments>(points, limit);
}

std::shared_ptr<NetTransform> make_parent(unsigned levels, const std::vector<double>& limits) {
  return std::make_shared<Parent>(levels, limits);
}

}  // namespace dpoco::experts
