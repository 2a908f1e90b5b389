#include "dpoco/domains/floored_simplex.hpp"

#include <algorithm>
#include <cassert>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::domains {

void project_floored_simplex(std::span<const double> log_v, double floor, std::span<double> scratch,
                             std::span<double> w) {
  assert(scratch.size() == log_v.size() && w.size() == log_v.size());
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = log_v.size();
  const double highest = *std::max_element(log_v.begin(), log_v.end());
  for (std::size_t i = 0; i < n; ++i) w[i] = log_v[i] - highest;
  k.exp(w.data(), n, w.data());  // the largest is 1
  // Entries below the floor are raised to it, which takes mass from the others and can only bring
  // more entries below the floor. So entries that are above it at the end are also above it in the
  // projection.
  double* above = scratch.data();
  std::copy(w.begin(), w.end(), above);
  std::size_t count = n;
  double factor = 1.0 / k.sum(above, n);
  for (bool changed = true; changed && count > 0;) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double value = above[i];
      above[kept] = value;
      kept += factor * value >= floor ? 1U : 0U;
    }
    changed = kept < count;
    count = kept;
    const double left = 1.0 - static_cast<double>(n - count) * floor;
    if (changed) factor = count > 0 && left > 0.0 ? left / k.sum(above, count) : 0.0;
  }
  for (double& each : w) each = std::max(floor, factor * each);
}

}  // namespace dpoco::domains
