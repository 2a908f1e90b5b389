#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "dpoco/oco/newton.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void Regularizer::gradient(std::span<const double> u, std::span<double> out) const {
  assert(std::ssize(u) == dimension && out.size() == u.size());
  if (!barrier) {
    for (std::size_t i = 0; i < u.size(); ++i) out[i] = inverse_step * u[i];
    return;
  }
  barrier->gradient(as_vector(u), as_vector(out));
  for (std::size_t i = 0; i < u.size(); ++i) out[i] = weight * out[i] + inverse_step * u[i];
}

void Regularizer::add_hessian(std::span<const double> u, std::span<double> matrix) const {
  auto to = as_matrix(matrix, dimension);
  to.diagonal().array() += inverse_step;
  if (!barrier) return;
  RowMatrix bend(dimension, dimension);
  barrier->hessian(as_vector(u), bend);
  to += weight * bend;
}

bool Regularizer::factor(std::span<const double> u, std::span<const double> curvature,
                         std::span<double> matrix, CholeskyFactor& out, double steep) const {
  assert(curvature.size() == matrix.size());
  std::ranges::copy(curvature, matrix.begin());
  if (rows.rows() > 0 && inverse_step > 0.0) {
    Vector pull = (bounds - rows * as_vector(u)).cwiseInverse();
    pull.array() *= pull.array() * weight;
    if (pull.maxCoeff() > steep * pull.minCoeff()) {
      as_matrix(matrix, dimension).diagonal().array() += inverse_step;
      bool exists = out.compute(matrix);
      double last = 0.0;
      // Updates in the order of size, ties together, because an update preserves smaller terms.
      while (exists) {
        double next = kInfinity;
        for (Index j = 0; j < pull.size(); ++j) {
          if (pull[j] > last) next = std::min(next, pull[j]);
        }
        if (!std::isfinite(next)) break;
        for (Index j = 0; j < pull.size(); ++j) {
          if (pull[j] == next)
            out.update(next, view(rows).subspan(static_cast<std::size_t>(j) * u.size(), u.size()));
        }
        last = next;
      }
      std::ranges::copy(curvature, matrix.begin());
      add_hessian(u, matrix);
      const double spread = out.log_determinant();
      if (exists && std::isfinite(spread)) return true;
      return out.compute(matrix);
    }
  }
  add_hessian(u, matrix);
  return out.compute(matrix);
}

bool Regularizer::inside(std::span<const double> u) const {
  const auto at = as_vector(u);
  return barrier ? std::isfinite(barrier->value(at)) : at.allFinite();
}

double Regularizer::distance(std::span<const double> u, std::span<const double> step) const {
  return barrier ? barrier->distance(as_vector(u), as_vector(step)) : kInfinity;
}

}  // namespace dpoco::oco
