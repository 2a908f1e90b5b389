#pragma once

#include <stdexcept>
#include <string>

namespace dpoco {

// Refuses a stated bound that is smaller than an attained value. Both come from the same formula,
// in doubles and by different libraries: powers and norms of up to 1e4 entries agree to about
// 1e-12.
inline void refuse_smaller(double stated, double known, const char* what) {
  if (stated >= known * (1.0 - 1e-12)) return;
  throw std::invalid_argument(std::string(what) + " is stated smaller than it is");
}

}  // namespace dpoco
