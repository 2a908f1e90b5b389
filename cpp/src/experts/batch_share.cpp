#include "dpoco/experts/batch_share.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/domains/floored_simplex.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::experts {
namespace {

// Below it, shared weights could underflow.
constexpr double kLeastShare = 1e-100;

// The largest rounding error of the weights' sum and of the batch's sums.
constexpr double kTolerance = 1e-6;

}  // namespace

BatchShare::BatchShare(BatchShareSettings settings,
                       std::unique_ptr<mechanisms::VectorRelease> release,
                       std::unique_ptr<random::Source> source)
    : ExpertLearner(settings.problem, std::move(source)),
      settings_(settings),
      release_(std::move(release)) {
  if (!release_) throw std::invalid_argument("a release is required");
  if (settings_.batch < 1) throw std::invalid_argument("batch must be at least 1");
  if (!(settings_.learning_rate > 0.0) || !std::isfinite(settings_.learning_rate)) {
    throw std::invalid_argument("learning_rate must be positive and finite");
  }
  const auto n = static_cast<double>(experts());
  const double share = settings_.share_rate;
  const double floor = settings_.floor;
  if (share != 0.0 && !(share >= kLeastShare && share <= 1.0 - 1.0 / n)) {
    throw std::invalid_argument("share_rate must be 0 or in [1e-100, 1 - 1 / experts]");
  }
  if (floor != 0.0 && !(floor >= kLeastShare && floor <= 1.0 / n && share == 0.0)) {
    throw std::invalid_argument("floor must be 0 or in [1e-100, 1 / experts], without sharing");
  }
  // A single expert leaves no choice, and no decision would use the losses of the last batch.
  releases_ = experts() == 1 ? 0 : (horizon() - 1) / settings_.batch;
  // Adding 1.5 2^52 q rounds to multiples of q = 2^-52 times the first power of two from B on.
  shift_ = 1.5 * static_cast<double>(std::bit_ceil(settings_.batch));
  const double grid = settings_.grid;
  if (grid != 0.0) {
    int exponent = 0;
    if (!(grid > 0.0 && grid <= 1.0) || std::frexp(grid, &exponent) != 0.5 ||
        !(static_cast<double>(settings_.batch) < 0x1p51 * grid)) {
      throw std::invalid_argument("grid must be a power of two up to 1 that holds a batch's sum");
    }
    shift_ = std::max(shift_, 0x1.8p52 * grid);
  }
  sums_.assign(experts(), 0.0);
  input_ = released_ = scratch_ = table_ = sums_;
  state_.assign(experts(), is_shared() ? 1.0 / n : 0.0);
  tabulate();
  draw();
}

std::uint64_t BatchShare::releases_before(std::uint64_t round) const noexcept {
  return std::min(round / settings_.batch, releases_);
}

std::uint64_t BatchShare::draws_before(std::uint64_t round) const noexcept {
  return experts() == 1 ? 0 : std::min(round + 1, horizon());
}

void BatchShare::weights(std::span<double> out) const {
  const auto entry = enter();
  const std::size_t n = table_.size();
  assert(out.size() == n);
  // Uses the table, not the state, because decisions are drawn from the table.
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = (i == 0 ? table_[0] : table_[i] - table_[i - 1]) / table_[n - 1];
  }
}

void BatchShare::learn(std::span<const double> losses) {
  const std::uint64_t over = round() + 1;
  if (round() / settings_.batch < releases_) {
    // Rounds losses to a grid on which the sums of a batch are exact. Then the sums of neighbouring
    // batches differ exactly by the difference in the changed round. 0 and 1 are on the grid.
    const simd::Kernels& k = simd::kernels();
    const std::size_t n = sums_.size();
    k.affine(1.0, losses.data(), shift_, n, scratch_.data());
    k.affine(1.0, scratch_.data(), -shift_, n, scratch_.data());
    k.axpy(1.0, scratch_.data(), n, sums_.data());
    if (over % settings_.batch == 0) close_batch();
  }
  if (!ends_last_round()) draw();
}

void BatchShare::close_batch() {
  const std::size_t n = sums_.size();
  double mean = 0.0;
  if (settings_.centered) {
    mean = simd::kernels().sum(sums_.data(), n) / static_cast<double>(n);
    mean = (mean + shift_) - shift_;  // also on the grid: the differences are exact
  }
  for (std::size_t i = 0; i < n; ++i) input_[i] = sums_[i] - mean;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  release_->release(input_, source(), released_);
  update();
  tabulate();
}

void BatchShare::update() {
  const simd::Kernels& k = simd::kernels();
  const std::size_t n = state_.size();
  const double eta = settings_.learning_rate;
  double* state = state_.data();
  const double* x = released_.data();
  if (settings_.floor > 0.0) {
    k.log(state, n, scratch_.data());
    for (std::size_t i = 0; i < n; ++i) scratch_[i] -= eta * x[i];
    domains::project_floored_simplex(scratch_, settings_.floor, table_, state_);
  } else if (settings_.share_rate > 0.0) {
    // The smallest loss has a weight of at least o and factor 1, so the sum does not underflow.
    const double total = k.tilt(state, x, k.smallest(x, n), eta, n, state);
    const double other = settings_.share_rate / static_cast<double>(n - 1);
    k.affine((1.0 - settings_.share_rate - other) / total, state, other, n, state);
  } else {
    k.axpy(1.0, x, n, state);
    k.affine(1.0, state, -k.smallest(state, n), n, state);
  }
}

// One release serves many decisions. With the table, a decision costs one search.
void BatchShare::tabulate() {
  const std::size_t n = state_.size();
  double* table = table_.data();
  if (is_shared()) {
    std::copy(state_.begin(), state_.end(), table);
  } else {
    simd::kernels().tilt(nullptr, state_.data(), 0.0, settings_.learning_rate, n, table);
  }
  for (std::size_t i = 1; i < n; ++i) table[i] += table[i - 1];
}

// This is post-processing of releases, so one uniform suffices. Weights below its precision are
// lost.
void BatchShare::draw() {
  if (experts() == 1) return;
  const double height = source().uniform() * table_.back();
  const auto place = std::lower_bound(table_.begin(), table_.end(), height);
  set_decision(static_cast<std::uint64_t>(place - table_.begin()));
}

std::array<double, 5> BatchShare::settings_in_state() const noexcept {
  return {static_cast<double>(settings_.batch), settings_.learning_rate, settings_.share_rate,
          settings_.floor, release_->strength()};
}

void BatchShare::write_own(Archive& archive) const {
  for (const double setting : settings_in_state()) archive.real(setting);
  if (settings_.grid != 0.0) archive.real(settings_.grid);
  archive.reals(sums_, state_);
}

void BatchShare::read_own(ArchiveReader& archive) {
  for (const double setting : settings_in_state()) {
    if (archive.real() != setting) throw StateError("state is of a learner with other parameters");
  }
  if (settings_.grid != 0.0 && archive.real() != settings_.grid) {
    throw StateError("state is of a learner with other parameters");
  }
  archive.reals(sums_, state_);
  const std::uint64_t released = releases_before(round());
  const bool keeps = round() / settings_.batch < releases_;
  const std::uint64_t open = keeps ? round() - released * settings_.batch : 0;
  const double most = static_cast<double>(open) * (1.0 + kTolerance);
  double total = 0.0;
  double least = state_[0];
  for (std::size_t i = 0; i < state_.size(); ++i) {
    if (!(sums_[i] >= 0.0 && sums_[i] <= most)) throw StateError("state holds no sum of losses");
    if (settings_.grid != 0.0 && std::fmod(sums_[i], settings_.grid) != 0.0) {
      throw StateError("state holds a sum beside its grid");
    }
    if (!(state_[i] >= 0.0) || !std::isfinite(state_[i])) {
      throw StateError("state holds no weights");
    }
    total += state_[i];
    least = std::min(least, state_[i]);
  }
  const bool normal = is_shared() ? std::fabs(total - 1.0) <= kTolerance : least == 0.0;
  const double lowest =
      settings_.floor > 0.0
          ? settings_.floor
          : settings_.share_rate / static_cast<double>(std::max<std::size_t>(1, state_.size() - 1));
  if (!normal || least < lowest * (1.0 - kTolerance)) throw StateError("state holds no weights");
  // A generator that is behind its round would draw noise that was already used.
  if (!release_->accounts_for(source(), released, draws_before(round()))) {
    throw StateError("state holds a generator at another round");
  }
  tabulate();
}

}  // namespace dpoco::experts
