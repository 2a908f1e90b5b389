#include "dpoco/frank_wolfe/tree_frank_wolfe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"

namespace dpoco::frank_wolfe {

TreeFrankWolfe::TreeFrankWolfe(std::shared_ptr<const domains::Domain> domain, losses::GlmLoss loss,
                               losses::RecordClipper clipper, TreeFrankWolfeSettings settings,
                               mechanisms::ContinualSum sum, const double* start)
    : domain_(std::move(domain)),
      leaves_(loss, std::move(clipper), settings.leaf_scalar_bound),
      settings_(settings),
      sum_(std::move(sum)) {
  if (settings_.horizon < 1 || settings_.batch < 1) {
    throw std::invalid_argument("horizon and batch must be at least 1");
  }
  if (!(settings_.step_scale > 0.0)) throw std::invalid_argument("step_scale must be positive");
  if (sum_.dimension() != domain_->dimension() || leaves_.dimension() != domain_->dimension()) {
    throw std::invalid_argument("the sum and the clipper must have the domain's dimension");
  }
  const auto d = static_cast<std::size_t>(domain_->dimension());
  theta_.assign(start, start + d);
  previous_ = theta_;
  row_.assign(d, 0.0);
  leaf_.assign(d, 0.0);
  leaf_rest_.assign(d, 0.0);
  direction_.assign(d, 0.0);
  vertex_.assign(d, 0.0);
}

void TreeFrankWolfe::decision(double* out) const {
  const auto entry = exclusive_.enter();
  std::copy(theta_.begin(), theta_.end(), out);
}

void TreeFrankWolfe::previous_decision(double* out) const {
  const auto entry = exclusive_.enter();
  std::copy(previous_.begin(), previous_.end(), out);
}

// Were a record to change between the reading of its norm and its use, the clipping would be void.
const double* TreeFrankWolfe::own_copy(const double* record) {
  std::copy(record, record + row_.size(), row_.data());
  return row_.data();
}

// A batch of one round is its leaf: no sum, nothing to lose.
double* TreeFrankWolfe::rest() noexcept {
  return settings_.batch > 1 ? leaf_rest_.data() : nullptr;
}

double TreeFrankWolfe::weight() const noexcept {
  const auto k = static_cast<double>(step_);
  return settings_.weights == Weights::unbiased ? k : k + 1.0;
}

void TreeFrankWolfe::leaf(const double* at, const double* previous, const double* features,
                          double label, double* out) const {
  std::fill(out, out + theta_.size(), 0.0);
  leaves_.add(weight(), at, previous, features, label, out, nullptr);
}

void TreeFrankWolfe::finish_round() {
  round_ = round_ + 1;
  moved_ = false;
  if (++pending_ < settings_.batch) return;
  pending_ = 0;
  sum_.push(leaf_.data(), direction_.data());
  std::fill(leaf_.begin(), leaf_.end(), 0.0);
  if (settings_.batch > 1) std::fill(leaf_rest_.begin(), leaf_rest_.end(), 0.0);
  // The minimiser is the same for any positive multiple of the direction, so 1 / (w_k batch) is
  // left out.
  domain_->minimize_linear(direction_.data(), vertex_.data());
  const double s = settings_.step_scale;
  const double eta = s / (static_cast<double>(step_) + s);
  previous_.swap(theta_);
  const double* from = previous_.data();
  const double* vertex = vertex_.data();
  double* to = theta_.data();
  const std::size_t d = theta_.size();
  for (std::size_t i = 0; i < d; ++i) to[i] = from[i] + eta * (vertex[i] - from[i]);
  moved_ = std::memcmp(to, from, d * sizeof(double)) != 0;
  ++step_;
}

void TreeFrankWolfe::require(std::uint64_t rounds) const {
  if (rounds > settings_.horizon - round_) {
    throw HorizonExceeded("the declared horizon is used up");
  }
  sum_.source().check_process();
}

void TreeFrankWolfe::require_turn(std::uint64_t decided) const {
  require(1);
  if (decided != round_) throw RoundOrderError("decide() and observe() alternate");
}

void TreeFrankWolfe::observe(std::uint64_t decided, const double* features, double label) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  leaves_.add(weight(), theta_.data(), previous_.data(), own_copy(features), label, leaf_.data(),
              rest());
  finish_round();
}

void TreeFrankWolfe::observe_gradient(std::uint64_t decided, const double* gradient) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  leaves_.add_gradient(theta_.data(), own_copy(gradient), leaf_.data(), rest());
  finish_round();
}

void TreeFrankWolfe::observe_gradients(std::uint64_t decided, const double* at_decision,
                                       const double* at_previous) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  const double w = weight();
  // The leaf is clipped, not the two gradients: clipping each
  // would break the smoothness that bounds their weighted difference.
  for (std::size_t i = 0; i < row_.size(); ++i) {
    row_[i] = w * at_decision[i] - (w - 1.0) * at_previous[i];
  }
  leaves_.add_gradient(theta_.data(), row_.data(), leaf_.data(), rest());
  finish_round();
}

void TreeFrankWolfe::skip(std::uint64_t decided) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  finish_round();
}

void TreeFrankWolfe::run(const Exclusive::Entry&, const double* features, const double* labels,
                         std::uint64_t rounds, double* losses, double* decisions,
                         std::uint8_t* changed) {
  require(rounds);
  const std::size_t d = theta_.size();
  const bool linear = labels == nullptr;
  for (std::uint64_t t = 0; t < rounds; ++t, features += d) {
    if (decisions != nullptr) std::copy(theta_.begin(), theta_.end(), decisions + t * d);
    const double* record = own_copy(features);
    const double loss = linear ? leaves_.add_gradient(theta_.data(), record, leaf_.data(), rest())
                               : leaves_.add(weight(), theta_.data(), previous_.data(), record,
                                             labels[t], leaf_.data(), rest());
    if (losses != nullptr) losses[t] = loss;
    finish_round();
    if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
  }
}

void TreeFrankWolfe::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  archive.reals(theta_.data(), theta_.size());
  archive.reals(previous_.data(), previous_.size());
  archive.reals(leaf_.data(), leaf_.size());
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  sum_.write(archive);
}

void TreeFrankWolfe::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(settings_.horizon + 1);
  step_ = 1 + round / settings_.batch;
  pending_ = round % settings_.batch;
  archive.reals(theta_.data(), theta_.size());
  archive.reals(previous_.data(), previous_.size());
  archive.reals(leaf_.data(), leaf_.size());
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  sum_.read(archive);
  round_ = round;
  constexpr double kTolerance = 1e-6;
  if (sum_.round() != step_ - 1) throw StateError("state holds an impossible round");
  if (!domain_->contains(theta_.data(), kTolerance) ||
      !domain_->contains(previous_.data(), kTolerance) ||
      !are_rests(leaf_.data(), leaf_rest_.data(), leaf_.size())) {
    throw StateError("state holds a decision outside the domain");
  }
}

}  // namespace dpoco::frank_wolfe
