#include <algorithm>
#include <cmath>
#include <limits>

#include "dpoco/oco/newton.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::oco {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Map = Eigen::Map<Vector>;
using ConstMap = Eigen::Map<const Vector>;

}  // namespace

void Regularizer::gradient(const double* u, double* out) const {
  if (!barrier) {
    for (Index i = 0; i < dimension; ++i) out[i] = inverse_step * u[i];
    return;
  }
  barrier->gradient(ConstMap(u, dimension), Map(out, dimension));
  for (Index i = 0; i < dimension; ++i) out[i] = weight * out[i] + inverse_step * u[i];
}

void Regularizer::add_hessian(const double* u, double* matrix) const {
  Eigen::Map<RowMatrix> to(matrix, dimension, dimension);
  to.diagonal().array() += inverse_step;
  if (!barrier) return;
  RowMatrix bend(dimension, dimension);
  barrier->hessian(ConstMap(u, dimension), bend);
  to += weight * bend;
}

bool Regularizer::factor(const double* u, const double* curvature, double* matrix,
                         CholeskyFactor& out, double steep) const {
  const auto n = static_cast<std::size_t>(dimension);
  std::copy(curvature, curvature + n * n, matrix);
  if (rows.rows() > 0 && inverse_step > 0.0) {
    Vector pull = (bounds - rows * ConstMap(u, dimension)).cwiseInverse();
    pull.array() *= pull.array() * weight;
    if (pull.maxCoeff() > steep * pull.minCoeff()) {
      Eigen::Map<RowMatrix>(matrix, dimension, dimension).diagonal().array() += inverse_step;
      bool exists = out.compute(matrix);
      double last = 0.0;
      // In the order of their sizes, ties together: an update keeps what is smaller than itself.
      while (exists) {
        double next = kInfinity;
        for (Index j = 0; j < pull.size(); ++j) {
          if (pull[j] > last) next = std::min(next, pull[j]);
        }
        if (!std::isfinite(next)) break;
        for (Index j = 0; j < pull.size(); ++j) {
          if (pull[j] == next) out.update(next, rows.data() + j * dimension);
        }
        last = next;
      }
      std::copy(curvature, curvature + n * n, matrix);
      add_hessian(u, matrix);
      const double spread = out.log_determinant();
      if (exists && std::isfinite(spread)) return true;
      return out.compute(matrix);
    }
  }
  add_hessian(u, matrix);
  return out.compute(matrix);
}

bool Regularizer::inside(const double* u) const {
  const ConstMap at(u, dimension);
  return barrier ? std::isfinite(barrier->value(at)) : at.allFinite();
}

double Regularizer::distance(const double* u, const double* step) const {
  return barrier ? barrier->distance(ConstMap(u, dimension), ConstMap(step, dimension)) : kInfinity;
}

}  // namespace dpoco::oco
