#include "dpoco/oco/placement.hpp"

#include <algorithm>

namespace dpoco::oco {

void Placement::place(const mechanisms::Released& point, std::span<double> out) const {
  if (!body_.contains(point.values(), 0.0)) return nearest(point, out);
  std::ranges::copy(point.values(), out.begin());
}

}  // namespace dpoco::oco
