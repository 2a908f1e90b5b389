#include "dpoco/frank_wolfe/frank_wolfe.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"

namespace dpoco::frank_wolfe {

FrankWolfe::FrankWolfe(std::shared_ptr<const domains::Domain> domain, LeafRule leaves,
                       FrankWolfeSettings settings, std::unique_ptr<VertexRule> rule,
                       const double* start)
    : RecordLearner(domain->dimension(), settings.horizon),
      domain_(std::move(domain)),
      leaves_(std::move(leaves)),
      settings_(settings),
      rule_(std::move(rule)),
      batch_(decision_.size(), {.first = settings.batch}),
      vertex_(decision_) {
  if (!(settings_.step_scale > 0.0)) throw std::invalid_argument("step_scale must be positive");
  if (rule_->dimension() != dimension() || leaves_.dimension() != dimension()) {
    throw std::invalid_argument("the leaves and their rule must have the domain's dimension");
  }
  decision_.assign(start, start + decision_.size());
  previous_ = decision_;
}

void FrankWolfe::previous_decision(double* out) const {
  const auto entry = enter();
  std::copy(previous_.begin(), previous_.end(), out);
}

double FrankWolfe::weight() const noexcept {
  return static_cast<double>(step_) + (settings_.published_weights ? 1.0 : 0.0);
}

void FrankWolfe::leaf(const double* at, const double* previous, const double* features,
                      double label, double* out) const {
  std::fill(out, out + decision_.size(), 0.0);
  leaves_.add(weight(), at, previous, features, label, out, nullptr);
}

double FrankWolfe::admit(const double* record, const double* label, bool) {
  if (label == nullptr) {
    return leaves_.add_gradient(decision_.data(), record, batch_.sum(), batch_.rest());
  }
  return leaves_.add(weight(), decision_.data(), previous_.data(), record, *label, batch_.sum(),
                     batch_.rest());
}

void FrankWolfe::observe_gradients(std::uint64_t decided, const double* at_decision,
                                   const double* at_previous) {
  play_turn(decided, [&] {
    const double w = weight();
    // The leaf is clipped, not the two gradients: clipping each
    // would break the smoothness that bounds their weighted difference.
    for (std::size_t i = 0; i < row_.size(); ++i) {
      row_[i] = w * at_decision[i] - (w - 1.0) * at_previous[i];
    }
    admit(row_.data(), nullptr, false);
  });
}

void FrankWolfe::skip(std::uint64_t decided) {
  play_turn(decided, [] {});
}

bool FrankWolfe::close_round() {
  if (!batch_.close_round()) return false;
  rule_->next(step_, static_cast<double>(settings_.batch) * weight(), batch_.sum(), vertex_.data());
  batch_.clear();
  const double s = settings_.step_scale;
  const double eta = s / (static_cast<double>(step_) + s);
  previous_.swap(decision_);
  const double* from = previous_.data();
  const double* vertex = vertex_.data();
  double* to = decision_.data();
  const std::size_t d = decision_.size();
  for (std::size_t i = 0; i < d; ++i) to[i] = from[i] + eta * (vertex[i] - from[i]);
  ++step_;
  return std::memcmp(to, from, d * sizeof(double)) != 0;
}

void FrankWolfe::write_state(Archive& archive) const {
  archive.word(round());
  archive.reals(decision_.data(), decision_.size());
  archive.reals(previous_.data(), previous_.size());
  batch_.write_sum(archive);
  rule_->write_sum(archive);
  batch_.write_rest(archive);
  rule_->write(archive);
}

void FrankWolfe::read_state(ArchiveReader& archive) {
  step_ = 1 + read_round(archive) / settings_.batch;
  archive.reals(decision_.data(), decision_.size());
  archive.reals(previous_.data(), previous_.size());
  batch_.read_sum(archive);
  rule_->read_sum(archive);
  batch_.read_rest(archive, round());
  rule_->read(archive, step_ - 1);
  constexpr double kTolerance = 1e-6;
  if (!domain_->contains(decision_.data(), kTolerance) ||
      !domain_->contains(previous_.data(), kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::frank_wolfe
