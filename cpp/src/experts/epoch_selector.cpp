#include "dpoco/experts/epoch_selector.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"

namespace dpoco::experts {

double BiasAllowance::after(std::uint64_t m) const noexcept {
  if (m == 0) return unselected;
  const auto rounds = static_cast<double>(m);
  return std::min(1.0, std::sqrt(2.0 * log_union / rounds) + noise * log_union / rounds);
}

EpochInstance::EpochInstance(mechanisms::NoisyMaxSettings selection, std::uint64_t longest)
    : selector_(selection),
      longest_(longest),
      sums_(selection.candidates),
      scores_(selection.candidates, 0.0) {
  if (longest < 1 || longest > kDoubling) {
    throw std::invalid_argument("the longest window must have between 1 and 2^62 rounds");
  }
  grown_ = std::bit_ceil(longest) - 1;
}

std::uint64_t EpochInstance::count_open(std::uint64_t rounds) const noexcept {
  if (rounds <= grown_) return rounds + 1 - std::bit_floor(rounds + 1);
  return (rounds - grown_) % longest_;
}

std::uint64_t EpochInstance::open() const noexcept {
  const std::uint64_t window = rounds_ < grown_ ? std::bit_floor(rounds_ + 1) : longest_;
  return std::min(window - count_open(rounds_) - 1, sums_.until_carry());
}

void EpochInstance::restart() noexcept {
  rounds_ = 0;
  sums_.clear();
}

std::uint64_t EpochInstance::selected_from() const noexcept {
  return std::bit_floor(rounds_ + 1) / 2;
}

std::optional<std::uint64_t> EpochInstance::learn(std::span<const double> losses, bool last,
                                                  random::Source& source) {
  sums_.add_rounding(losses);
  ++rounds_;
  if (count_open(rounds_) != 0) return std::nullopt;
  std::optional<std::uint64_t> selected;
  if (!last) {
    sums_.relative_on_grid(std::min((rounds_ + 1) / 2, longest_), scores_);
    selected = selector_.select(scores_, source);
  }
  sums_.clear();
  return selected;
}

void EpochInstance::write(Archive& archive) const {
  archive.word(rounds_);
  sums_.write(archive);
}

void EpochInstance::read(ArchiveReader& archive) {
  const std::uint64_t rounds = archive.word_below(~0ULL);
  sums_.read(archive);
  sums_.require(count_open(rounds));
  rounds_ = rounds;
}

EpochSelector::EpochSelector(ExpertSettings settings, const EpochSelectorSettings& own,
                             std::unique_ptr<random::Source> source)
    : ExpertLearner(settings, std::move(source)), instance_(own.selection, own.longest) {
  if (own.selection.candidates != settings.experts || own.selection.largest) {
    throw std::invalid_argument("the selection must be of the smallest of as many scores");
  }
  if (own.first.has_value() && *own.first >= settings.experts) {
    throw std::invalid_argument("the first expert must be below the number of experts");
  }
  set_decision(own.first.has_value() ? *own.first : instance_.uniform(this->source()));
}

void EpochSelector::learn(std::span<const double> losses) {
  const auto selected = instance_.learn(losses, ends_last_round(), source());
  if (selected.has_value()) set_decision(*selected);
}

void EpochSelector::play(std::span<const double> losses, std::span<double> own_losses,
                         std::span<std::int64_t> decisions) {
  while (!decisions.empty()) {
    const std::uint64_t open = std::min<std::uint64_t>(instance_.open(), decisions.size());
    const std::size_t played = std::max<std::size_t>(open, 1);
    const auto rows = losses.first(played * experts());
    if (open == 0) {  // the round ends a window
      ExpertLearner::play(rows, own_losses.first(1), decisions.first(1));
    } else {
      instance_.learn_open(open, [&](double grid, std::span<double> sums) {
        admit_sums(rows, grid, sums, own_losses.first(open));
      });
      std::ranges::fill(decisions.first(open), static_cast<std::int64_t>(current()));
      count_rounds(open);
    }
    losses = losses.subspan(rows.size());
    own_losses = own_losses.subspan(played);
    decisions = decisions.subspan(played);
  }
}

void EpochSelector::write_own(Archive& archive) const { instance_.write(archive); }

void EpochSelector::read_own(ArchiveReader& archive) {
  instance_.read(archive);
  if (instance_.rounds() != round()) throw StateError("state holds impossible rounds");
}

}  // namespace dpoco::experts
