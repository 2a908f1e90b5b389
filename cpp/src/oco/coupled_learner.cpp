#include "dpoco/oco/coupled_learner.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/grid.hpp"

namespace dpoco::oco {

using domains::Body;
using losses::LossSum;

namespace {

const LossSum& require_sum(const std::unique_ptr<LossSum>& sum) {
  if (!sum) throw std::invalid_argument("a loss sum is required");
  return *sum;
}

}  // namespace

CoupledLearner::CoupledLearner(std::unique_ptr<LossSum> sum, const mechanisms::SwitchSettings& rule,
                               std::unique_ptr<random::Source> source)
    : RecordLearner(require_sum(sum).body().ambient(), rule.horizon),
      sum_(std::move(sum)),
      source_(std::move(source)),
      rule_(rule),
      placement_(sum_->body()),
      released_(static_cast<std::size_t>(sum_->dimension()), 0.0),
      rounded_(released_) {
  if (!source_) throw std::invalid_argument("a source is required");
}

double CoupledLearner::grid_within_body(double spread, int bits) const {
  const Body& body = sum_->body();
  if (body.kind() == Body::Kind::box) {
    spread = std::min(spread, body.half_widths().minCoeff());
  } else if (body.kind() != Body::Kind::space) {
    spread = std::min(spread, body.radius() / static_cast<double>(body.dimension()));
  }
  return grid_below(spread, bits);
}

void CoupledLearner::round_point(std::span<const double> point, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) rounded_[i] = nearest_multiple(point[i], grid_);
  placement_.place(release(rounded_), out);
}

void CoupledLearner::copy_counts() { switches_ = rule_.switches(); }

double CoupledLearner::admit(std::optional<double> label, bool wants_loss) {
  if (label) {
    sum_->stage_record(own_row(), *label);
  } else {
    sum_->stage_vector(own_row());
  }
  return wants_loss ? sum_->staged_value(released_) : 0.0;
}

void CoupledLearner::observe_quadratic(std::uint64_t decided, std::span<const double> matrix,
                                       std::span<const double> vector) {
  play_turn(decided, [&] { sum_->stage_matrix(matrix, vector); });
}

void CoupledLearner::observe_staged(std::uint64_t decided,
                                    const std::function<void(LossSum&)>& stage) {
  play_turn(decided, [&] { stage(*sum_); });
}

}  // namespace dpoco::oco
