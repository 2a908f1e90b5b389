#pragma once

#include <span>
#include <utility>

#include "dpoco/domains/body.hpp"
#include "dpoco/mechanisms/released.hpp"

namespace dpoco::oco {

// Brings drawn points, of which the digits beyond a public grid are cut off, back into a body.
class Placement final : public mechanisms::PostProcessing {
 public:
  explicit Placement(domains::Body body) : body_(std::move(body)) {}

  // The nearest point of the body; points are in the body's coordinates.
  void nearest(const mechanisms::Released& point, std::span<double> out) const {
    body_.project(point.values(), out);
  }
  // The same, but a point of the body stays as it is, bit by bit.
  void place(const mechanisms::Released& point, std::span<double> out) const;

 private:
  domains::Body body_;
};

}  // namespace dpoco::oco
