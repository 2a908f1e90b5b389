#include "dpoco/frank_wolfe/batch_fit.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

BatchRecords::BatchRecords(const losses::RecordClipper& clipper, losses::GlmLoss loss,
                           double derivative_bound, std::uint64_t count, const double* features,
                           const double* labels)
    : clipper_(clipper),
      dimension_(static_cast<std::size_t>(clipper.dimension())),
      loss_(loss),
      bound_(derivative_bound),
      rows_(features, features + count * dimension_),
      labels_(labels, labels + count) {
  if (count < 1) throw std::invalid_argument("there must be at least one record");
  if (!(derivative_bound > 0.0)) throw std::invalid_argument("derivative_bound must be positive");
  for (std::uint64_t i = 0; i < count; ++i) {
    double* const row = rows_.data() + i * dimension_;
    const double multiplier =
        losses::GlmLoss::label_multiplier(labels_[i]) * clipper.multiplier(row);
    if (multiplier == 0.0) {
      std::fill(row, row + dimension_, 0.0);  // entries may be NaN
    } else {
      for (std::size_t j = 0; j < dimension_; ++j) row[j] *= multiplier;
    }
    labels_[i] = loss_.clip_label(labels_[i]);
  }
}

double BatchRecords::derivative(std::uint64_t i, const double* theta) const noexcept {
  const double margin = simd::kernels().dot(theta, row(i), dimension_);
  return std::clamp(loss_.derivative(margin, labels_[i]), -bound_, bound_);
}

BatchFit::BatchFit(BatchProblem problem)
    : domain_(std::move(problem.domain)),
      records_(std::move(problem.records)),
      source_(std::move(problem.source)),
      theta_(std::move(problem.start)) {
  if (static_cast<std::size_t>(domain_->dimension()) != records_.dimension() ||
      theta_.size() != records_.dimension()) {
    throw std::invalid_argument("records and start must have the domain's dimension");
  }
}

void BatchFit::advance(std::uint64_t count) {
  source_->check_process();
  for (; count > 0 && completed_ < units_; --count, ++completed_) step();
}

void BatchFit::finish(double* out) const { std::copy(theta_.begin(), theta_.end(), out); }

void BatchFit::result(double* out) const {
  if (completed_ != units_) throw RoundOrderError("the fit is not complete");
  finish(out);
}

}  // namespace dpoco::frank_wolfe
