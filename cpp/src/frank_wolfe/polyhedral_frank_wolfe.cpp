#include "dpoco/frank_wolfe/polyhedral_frank_wolfe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

PolyhedralFrankWolfe::PolyhedralFrankWolfe(std::shared_ptr<const domains::Domain> domain,
                                           LeafRule leaves, PolyhedralFrankWolfeSettings settings,
                                           std::unique_ptr<random::Source> source,
                                           const double* start)
    : domain_(std::move(domain)),
      leaves_(std::move(leaves)),
      settings_(settings),
      source_(std::move(source)) {
  if (settings_.horizon < 1 || settings_.batch < 1) {
    throw std::invalid_argument("horizon and batch must be at least 1");
  }
  if (!(settings_.scale >= 0.0) || !std::isfinite(settings_.scale) ||
      !(settings_.exponent >= 0.0 && settings_.exponent <= 1.0)) {
    throw std::invalid_argument("scale must be at least 0, the exponent in [0, 1]");
  }
  if (leaves_.dimension() != domain_->dimension()) {
    throw std::invalid_argument("the leaves must have the domain's dimension");
  }
  selection_ = mechanisms::make_vertex_selection(domain_, settings_.noise);
  const auto d = static_cast<std::size_t>(domain_->dimension());
  theta_.assign(start, start + d);
  previous_ = theta_;
  for (auto* buffer : {&row_, &leaf_, &leaf_rest_, &sum_, &rest_, &zero_, &direction_, &vertex_}) {
    buffer->assign(d, 0.0);
  }
}

void PolyhedralFrankWolfe::decision(double* out) const {
  const auto entry = exclusive_.enter();
  std::copy(theta_.begin(), theta_.end(), out);
}

void PolyhedralFrankWolfe::previous_decision(double* out) const {
  const auto entry = exclusive_.enter();
  std::copy(previous_.begin(), previous_.end(), out);
}

// Were a record to change between the reading of its norm and its use, the clipping would be void.
const double* PolyhedralFrankWolfe::own_copy(const double* record) {
  std::copy(record, record + row_.size(), row_.data());
  return row_.data();
}

// A batch of one round is its leaf: no sum, nothing to lose.
double* PolyhedralFrankWolfe::rest() noexcept {
  return settings_.batch > 1 ? leaf_rest_.data() : nullptr;
}

double PolyhedralFrankWolfe::weight() const noexcept {
  return static_cast<double>(step_) + (settings_.published_weights ? 1.0 : 0.0);
}

void PolyhedralFrankWolfe::leaf(const double* at, const double* previous, const double* features,
                                double label, double* out) const {
  std::fill(out, out + theta_.size(), 0.0);
  leaves_.add(weight(), at, previous, features, label, out, nullptr);
}

// The vertex for the sum: the minimiser without noise, which no positive factor changes.
void PolyhedralFrankWolfe::select_vertex() {
  if (settings_.scale == 0.0) {
    domain_->minimize_linear(direction_.data(), vertex_.data());
    return;
  }
  // 1 / (batch w_k b_k)
  const double growth = elementary::power(static_cast<double>(step_), settings_.exponent);
  const double rate = growth / (static_cast<double>(settings_.batch) * weight() * settings_.scale);
  selection_->select(direction_.data(), rate, *source_, vertex_.data());
}

void PolyhedralFrankWolfe::finish_round() {
  round_ = round_ + 1;
  moved_ = false;
  if (++pending_ < settings_.batch) return;
  pending_ = 0;
  const std::size_t d = theta_.size();
  simd::kernels().release(1.0, leaf_.data(), zero_.data(), 0.0, d, sum_.data(), rest_.data(),
                          direction_.data());
  std::fill(leaf_.begin(), leaf_.end(), 0.0);
  if (settings_.batch > 1) std::fill(leaf_rest_.begin(), leaf_rest_.end(), 0.0);
  select_vertex();
  const double eta = 1.0 / (static_cast<double>(step_) + 1.0);
  previous_.swap(theta_);
  const double* from = previous_.data();
  const double* vertex = vertex_.data();
  double* to = theta_.data();
  for (std::size_t i = 0; i < d; ++i) to[i] = from[i] + eta * (vertex[i] - from[i]);
  moved_ = std::memcmp(to, from, d * sizeof(double)) != 0;
  ++step_;
}

void PolyhedralFrankWolfe::require(std::uint64_t rounds) const {
  if (rounds > settings_.horizon - round_) {
    throw HorizonExceeded("the declared horizon is used up");
  }
  source_->check_process();
}

void PolyhedralFrankWolfe::require_turn(std::uint64_t decided) const {
  require(1);
  if (decided != round_) throw RoundOrderError("decide() and observe() alternate");
}

void PolyhedralFrankWolfe::observe(std::uint64_t decided, const double* features, double label) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  leaves_.add(weight(), theta_.data(), previous_.data(), own_copy(features), label, leaf_.data(),
              rest());
  finish_round();
}

void PolyhedralFrankWolfe::observe_gradient(std::uint64_t decided, const double* gradient) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  leaves_.add_gradient(theta_.data(), own_copy(gradient), leaf_.data(), rest());
  finish_round();
}

void PolyhedralFrankWolfe::observe_gradients(std::uint64_t decided, const double* at_decision,
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

void PolyhedralFrankWolfe::skip(std::uint64_t decided) {
  const auto entry = exclusive_.enter();
  require_turn(decided);
  finish_round();
}

void PolyhedralFrankWolfe::run(const Exclusive::Entry&, const double* features,
                               const double* labels, std::uint64_t rounds, double* losses,
                               double* decisions, std::uint8_t* changed) {
  require(rounds);
  const std::size_t d = theta_.size();
  for (std::uint64_t t = 0; t < rounds; ++t, features += d) {
    if (decisions != nullptr) std::copy(theta_.begin(), theta_.end(), decisions + t * d);
    const double* record = own_copy(features);
    const double loss = labels == nullptr
                            ? leaves_.add_gradient(theta_.data(), record, leaf_.data(), rest())
                            : leaves_.add(weight(), theta_.data(), previous_.data(), record,
                                          labels[t], leaf_.data(), rest());
    if (losses != nullptr) losses[t] = loss;
    finish_round();
    if (changed != nullptr) changed[t] = moved_ ? 1 : 0;
  }
}

void PolyhedralFrankWolfe::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  for (const auto* values : {&theta_, &previous_, &leaf_, &sum_, &rest_}) {
    archive.reals(values->data(), values->size());
  }
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  archive.real(settings_.scale);
  source_->write(archive);
}

void PolyhedralFrankWolfe::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(settings_.horizon + 1);
  step_ = 1 + round / settings_.batch;
  pending_ = round % settings_.batch;
  for (auto* values : {&theta_, &previous_, &leaf_, &sum_, &rest_}) {
    archive.reals(values->data(), values->size());
  }
  if (settings_.batch > 1) archive.reals(leaf_rest_.data(), leaf_rest_.size());
  if (archive.real() != settings_.scale) throw StateError("state has noise of another scale");
  source_->read(archive);
  constexpr double kTolerance = 1e-6;
  if (!domain_->contains(theta_.data(), kTolerance) ||
      !domain_->contains(previous_.data(), kTolerance) ||
      !are_rests(leaf_.data(), leaf_rest_.data(), leaf_.size())) {
    throw StateError("state holds a decision outside the domain");
  }
  if (!are_rests(sum_.data(), rest_.data(), sum_.size())) throw StateError("state holds no sum");
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    // Before the first update and in a batch's first round there is nothing.
    if ((step_ == 1 && sum_[i] != 0.0) || (pending_ == 0 && leaf_[i] != 0.0)) {
      throw StateError("state holds no sum");
    }
  }
  // A generator behind its round would draw noise again that was already used.
  if (!selection_->accounts_for(*source_, settings_.scale > 0.0 ? step_ - 1 : 0)) {
    throw StateError("state holds a generator at another round");
  }
  round_ = round;
}

}  // namespace dpoco::frank_wolfe
