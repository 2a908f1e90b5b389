#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "dpoco/experts/cosine_transform.hpp"
#include "dpoco/experts/net_transform.hpp"
#include "net_bounds.hpp"

namespace dpoco::experts {
namespace {

// 2 - 2 cos(pi k / n), k < n: the eigenvalues of a path's Laplacian.
std::vector<double> path_eigenvalues(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t k = 0; k < n; ++k) {
    double cosine;
    double sine;
    unit_root(k, 4 * n, cosine, sine);
    values[k] = 4.0 * sine * sine;  // without the cancellation
  }
  return values;
}

class GridLaplacian final : public NetTransform {
 public:
  GridLaplacian(std::size_t rows, std::size_t columns, double row_limit, double column_limit)
      : rows_(rows),
        columns_(columns),
        row_limit_(row_limit),
        column_limit_(column_limit),
        along_rows_(columns),
        along_columns_(rows) {
    if (rows < 2 || columns < 2) {
      throw std::invalid_argument("a grid needs at least two points an axis");
    }
    check_limit(row_limit);
    check_limit(column_limit);
    field_.assign(rows * columns, 0.0);
    turned_.assign(rows * columns, 0.0);
    inverse_roots_.assign(rows * columns, 0.0);
    const std::vector<double> down = path_eigenvalues(rows);
    const std::vector<double> across = path_eigenvalues(columns);
    for (std::size_t i = 1; i < rows * columns; ++i) {
      inverse_roots_[i] = 1.0 / std::sqrt(down[i / columns] + across[i % columns]);
    }
  }

  const char* name() const noexcept override { return "grid_laplacian"; }
  std::vector<std::size_t> counts() const override { return {rows_, columns_}; }
  std::vector<double> limits() const override { return {row_limit_, column_limit_}; }
  std::size_t inputs() const noexcept override { return rows_ * columns_; }
  std::size_t outputs() const noexcept override { return rows_ * columns_ - 1; }

  // Let e be the field of bounded edge differences and B the incidence matrix. The nearest gradient
  // is B u with L u = B' e, L = B' B, and its white coefficients are L^{-1/2} B' e. The projection
  // does not increase the length, and it changes nothing if no difference exceeded its bound: then
  // e = B l.
  std::size_t apply(std::span<const double> losses, std::span<double> out) override {
    assert(losses.size() == inputs() && out.size() == outputs());
    if (!all_finite(losses)) return zero_round(*this, out);
    const std::size_t changed = divergence(losses);
    along_columns_.forward(field_, turned_);
    along_rows_.forward(turned_, field_);
    for (std::size_t i = 1; i < inputs(); ++i) out[i - 1] = field_[i] * inverse_roots_[i];
    return changed;
  }

  void invert(std::span<const double> sums, std::span<double> out) override {
    assert(sums.size() == outputs() && out.size() == inputs());
    field_[0] = 0.0;
    for (std::size_t i = 1; i < inputs(); ++i) field_[i] = sums[i - 1] * inverse_roots_[i];
    along_columns_.inverse(field_, turned_);
    along_rows_.inverse(turned_, out);
  }

 private:
  // field = B' e.
  std::size_t divergence(std::span<const double> losses) noexcept {
    std::size_t changed = 0;
    std::fill(field_.begin(), field_.end(), 0.0);
    for (std::size_t i = 0; i < rows_; ++i) {
      const double* from = losses.data() + i * columns_;
      double* to = field_.data() + i * columns_;
      for (std::size_t j = 0; j + 1 < columns_; ++j) {
        const double step = from[j + 1] - from[j];
        changed += exceeds(step, column_limit_);
        const double edge = bounded(step, column_limit_);
        to[j] -= edge;
        to[j + 1] += edge;
      }
      if (i + 1 == rows_) break;
      for (std::size_t j = 0; j < columns_; ++j) {
        const double step = from[columns_ + j] - from[j];
        changed += exceeds(step, row_limit_);
        const double edge = bounded(step, row_limit_);
        to[j] -= edge;
        to[columns_ + j] += edge;
      }
    }
    return changed;
  }

  std::size_t rows_;
  std::size_t columns_;
  double row_limit_;     // of differences between rows
  double column_limit_;  // and between columns
  CosineTransform along_rows_;
  CosineTransform along_columns_;
  std::vector<double> inverse_roots_;
  std::vector<double> field_;
  std::vector<double> turned_;
};

}  // namespace

std::shared_ptr<NetTransform> make_grid_laplacian(std::size_t rows, std::size_t columns,
                                                  double row_limit, double column_limit) {
  return std::make_shared<GridLaplacian>(rows, columns, row_limit, column_limit);
}

}  // namespace dpoco::experts
