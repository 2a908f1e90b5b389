#pragma once

#include <span>
#include <utility>

#include "dpoco/domains/body.hpp"
#include "dpoco/mechanisms/released.hpp"

namespace dpoco::oco {

// Moves drawn points, which are rounded to a public grid, back into a body.
class Placement final : public mechanisms::PostProcessing {
 public:
  explicit Placement(domains::Body body) : body_(std::move(body)) {}

  // The nearest point of the body. Points are in the body's coordinates.
  void nearest(const mechanisms::Released& point, std::span<double> out) const {
    body_.project(point.values(), out);
  }
  // The same, except that a point of the body stays unchanged, bit by bit.
  void place(const mechanisms::Released& point, std::span<double> out) const;

 private:
  domains::Body body_;
};

}  // namespace dpoco::oco
