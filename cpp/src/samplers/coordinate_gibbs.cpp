#include "dpoco/samplers/coordinate_gibbs.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/samplers/truncated_normal.hpp"

namespace dpoco::samplers {
namespace {

// The rounding errors of the running product grow with the number of sweeps since it was last
// computed.
constexpr std::uint64_t kRefresh = 256;

}  // namespace

CoordinateGibbs::CoordinateGibbs(const ConstRowMatrixRef& precision, const ConstVectorRef& mean,
                                 const ConstVectorRef& lower, const ConstVectorRef& upper)
    : precision_(precision),
      deviation_(mean.size()),
      mean_(mean),
      lower_(lower),
      upper_(upper),
      box_lower_(lower),
      box_upper_(upper),
      state_(mean.size()),
      force_(mean.size()) {
  const Index n = mean.size();
  if (n < 1 || precision.rows() != n || precision.cols() != n || lower.size() != n ||
      upper.size() != n) {
    throw std::invalid_argument("precision, mean, lower and upper must agree in size");
  }
  if (!(precision.diagonal().minCoeff() > 0.0)) {
    throw std::invalid_argument("precision must have a positive diagonal");
  }
  const double slack = 1e-12 * precision.diagonal().maxCoeff();
  if (!((precision - precision.transpose()).cwiseAbs().maxCoeff() <= slack)) {
    throw std::invalid_argument("precision must be symmetric");
  }
  for (Index i = 0; i < n; ++i) {
    if (!(lower[i] < upper[i])) throw std::invalid_argument("lower must be below upper");
    deviation_[i] = 1.0 / std::sqrt(precision(i, i));
    mean_[i] /= deviation_[i];
    lower_[i] /= deviation_[i];
    upper_[i] /= deviation_[i];
  }
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) precision_(i, j) *= deviation_[i] * deviation_[j];
  }
  restart(view(mean));
}

void CoordinateGibbs::restart(std::span<const double> x) {
  assert(std::ssize(x) == dimension());
  for (Index i = 0; i < dimension(); ++i) {
    state_[i] = std::min(std::max(x[i] / deviation_[i], lower_[i]), upper_[i]);
  }
  refresh();
}

void CoordinateGibbs::refresh() {
  const Index n = dimension();
  for (Index i = 0; i < n; ++i) {
    double sum = 0.0;
    for (Index j = 0; j < n; ++j) sum += precision_(i, j) * (state_[j] - mean_[j]);
    force_[i] = sum;
  }
  sweeps_ = 0;
}

void CoordinateGibbs::sweep(random::Source& source) {
  const Index n = dimension();
  double* force = force_.data();
  double* state = state_.data();
  for (Index i = 0; i < n; ++i) {
    // The diagonal is 1, so the conditional law is N(state - force, 1) on its interval.
    const double next = truncated_normal(source, state[i] - force[i], 1.0, lower_[i], upper_[i]);
    const double step = next - state[i];
    state[i] = next;
    const double* row = precision_.data() + i * n;
    for (Index j = 0; j < n; ++j) force[j] += step * row[j];
  }
  if (++sweeps_ >= kRefresh) refresh();
}

void CoordinateGibbs::current(std::span<double> out) const {
  assert(std::ssize(out) == dimension());
  for (Index i = 0; i < dimension(); ++i) {
    out[i] = std::min(std::max(state_[i] * deviation_[i], box_lower_[i]), box_upper_[i]);
  }
}

}  // namespace dpoco::samplers
