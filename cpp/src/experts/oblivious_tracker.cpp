#include "dpoco/experts/oblivious_tracker.hpp"

#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::experts {

using samplers::PathState;
using samplers::SwitchingPaths;

ObliviousTracker::ObliviousTracker(ExpertSettings settings, std::unique_ptr<SwitchingPaths> paths,
                                   mechanisms::SwitchSettings coins, double learning_rate,
                                   std::unique_ptr<random::Source> source)
    : ExpertLearner(settings, std::move(source)),
      paths_(std::move(paths)),
      coins_(coins),
      rate_(learning_rate) {
  if (paths_->experts() != settings.experts || coins.horizon != settings.horizon) {
    throw std::invalid_argument("paths and coins are for another problem");
  }
  move_to(paths_->start(this->source()));
}

void ObliviousTracker::move_to(PathState state) noexcept {
  state_ = state;
  set_decision(state.expert);
}

void ObliviousTracker::learn(std::span<const double> losses) {
  if (experts() == 1) return;
  const double log_factor =
      coins_.wants_factor() ? -rate_ * paths_->loss(losses, state_.expert) : 0.0;
  if (coins_.open()) {
    paths_->learn(losses);
  } else {
    paths_->skip();
  }
  const bool fresh = coins_.advance(log_factor, source());
  resamples_ = coins_.switches();
  if (ends_last_round()) return;
  move_to(fresh ? paths_->draw(source()) : paths_->follow(state_, source()));
}

void ObliviousTracker::nonprivate_set_state(PathState state) {
  const auto entry = enter();
  if (state.expert >= experts() || state.level >= paths_->levels()) {
    throw std::invalid_argument("no such state of a path");
  }
  move_to(state);
}

TrackerKernel ObliviousTracker::nonprivate_kernel(std::span<const double> losses) const {
  const auto entry = enter();
  TrackerKernel kernel{.keep = 1.0, .next = paths_->copy()};
  mechanisms::SwitchRule coins = coins_;
  if (coins.open()) {
    kernel.next->learn(losses);
  } else {
    kernel.next->skip();
  }
  const bool decides = coins.open() && (coins.round() + 1) % coins.settings().block == 0;
  if (decides && experts() > 1) {
    kernel.keep = (1.0 - coins.settings().forced) *
                  elementary::exp(coins.log_stay() - rate_ * paths_->loss(losses, state_.expert));
  }
  return kernel;
}

void ObliviousTracker::write_own(Archive& archive) const {
  coins_.write(archive);
  paths_->write(archive);
  archive.word(state_.level);
}

void ObliviousTracker::read_own(ArchiveReader& archive) {
  coins_.read(archive);
  paths_->read(archive);
  state_ = {.level = archive.word_below(paths_->levels()), .expert = current()};
  const std::uint64_t played = experts() == 1 ? 0 : round();
  if (coins_.round() != played || paths_->round() != played + 1) {
    throw StateError("state holds parts of different rounds");
  }
  resamples_ = coins_.switches();
}

}  // namespace dpoco::experts
