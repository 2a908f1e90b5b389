#include "dpoco/samplers/switching_paths.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/samplers/categorical.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::samplers {

namespace {

// Returns which of n equal parts contains u in (0, 1].
std::uint64_t find_part(double u, std::uint64_t n) {
  return std::min(static_cast<std::uint64_t>(u * static_cast<double>(n)), n - 1);
}

// Weights a_j of the current expert. A round is a_j <- (stay - move) v_j / sum(v) + move with v_j =
// a_j exp(-rate * loss_j). The weights sum to 1 and none falls below `move`, so they do not
// degenerate after many rounds or for a large rate.
class SharePaths final : public SwitchingPaths {
 public:
  SharePaths(std::uint64_t experts, double share_rate, double rate)
      : SwitchingPaths(experts, rate), share_rate_(share_rate) {
    const double largest = (static_cast<double>(experts) - 1.0) / static_cast<double>(experts);
    // From 1e-100 on no product below leaves the range of doubles.
    if (!(share_rate >= 1e-100 && share_rate <= largest)) {
      throw std::invalid_argument("the share rate must be 0 or in [1e-100, 1 - 1/experts]");
    }
    move_ = share_rate / (static_cast<double>(experts) - 1.0);
    keep_ = std::max(1.0 - share_rate - move_, 0.0);
    weights_.assign(experts, 1.0 / static_cast<double>(experts));
    race_.assign(experts, 0.0);
  }

  std::size_t levels() const noexcept override { return 1; }
  std::optional<double> share_rate() const noexcept override { return share_rate_; }
  PathState draw(random::Source& source) override {
    return {.level = 0, .expert = draw_by_race(source, weights_, race_)};
  }
  double move_chance(std::uint64_t) const override { return share_rate_; }
  void nonprivate_law(std::span<double> out) const override {
    const simd::Kernels& k = simd::kernels();
    const double sum = k.sum(weights_.data(), experts());
    k.affine(1.0 / sum, weights_.data(), 0.0, experts(), out.data());
  }
  std::unique_ptr<SwitchingPaths> copy() const override {
    return std::make_unique<SharePaths>(*this);
  }

 protected:
  bool moves() const noexcept override { return true; }

  void absorb(std::span<const double> losses) override {
    const simd::Kernels& k = simd::kernels();
    // Weights are relative to the best loss only if exp(-rate) would be near the smallest double.
    const double base = rate() > 300.0 ? k.smallest(losses.data(), experts()) : 0.0;
    const double sum =
        k.tilt(weights_.data(), losses.data(), base, rate(), experts(), weights_.data());
    k.affine(keep_ / sum, weights_.data(), move_, experts(), weights_.data());
  }

  void write_messages(Archive& archive) const override { archive.reals(weights_); }
  void read_messages(ArchiveReader& archive) override {
    archive.reals(weights_);
    for (const double weight : weights_) {
      // After a round no weight is below `move`, and 1/N is not below it either.
      if (!(weight >= 0.5 * move_ && weight <= 2.0)) {
        throw StateError("state holds impossible weights");
      }
    }
  }

 private:
  double share_rate_;
  double move_;  // probability of one given other expert
  double keep_;  // probability to stay minus move_
  std::vector<double> weights_;
  std::vector<double> race_;
};

}  // namespace

SwitchingPaths::SwitchingPaths(std::uint64_t experts, double rate)
    : experts_(experts), rate_(rate) {
  if (experts < 1) throw std::invalid_argument("there must be an expert");
  if (!(rate > 0.0 && rate <= 1e100)) {
    throw std::invalid_argument("the learning rate must be in (0, 1e100]");
  }
}

PathState SwitchingPaths::start(random::Source& source) const {
  if (experts_ == 1) return {};
  return {.level = 0, .expert = find_part(source.uniform(), experts_)};
}

PathState SwitchingPaths::follow(PathState state, random::Source& source) const {
  if (!moves()) return state;
  // Draws one variate whatever the level, which is not public, and a second one if the expert
  // changes.
  if (source.uniform() > move_chance(state.level)) return state;
  const std::uint64_t other = find_part(source.uniform(), experts_ - 1);
  return {.level = levels() > 1 ? state.level + 1 : 0,
          .expert = other < state.expert ? other : other + 1};
}

void SwitchingPaths::write(Archive& archive) const {
  archive.word(round_);
  write_messages(archive);
}

void SwitchingPaths::read(ArchiveReader& archive) {
  round_ = archive.word();
  if (round_ < 1) throw StateError("state holds an impossible round");
  read_messages(archive);
}

std::unique_ptr<SwitchingPaths> make_share_paths(std::uint64_t experts, double share_rate,
                                                 double rate) {
  return std::make_unique<SharePaths>(experts, share_rate, rate);
}

}  // namespace dpoco::samplers
