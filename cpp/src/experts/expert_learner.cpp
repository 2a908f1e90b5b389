#include "dpoco/experts/expert_learner.hpp"

#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/simd/kernels.hpp"

namespace dpoco::experts {

ExpertLearner::ExpertLearner(ExpertSettings settings, std::unique_ptr<random::Source> source)
    : Rounds(settings.horizon), settings_(settings), source_(std::move(source)) {
  if (settings_.experts < 1) throw std::invalid_argument("experts must be at least 1");
  inverse_width_ = 1.0 / (settings_.range.high - settings_.range.low);
  if (!(settings_.range.low < settings_.range.high) || !std::isfinite(inverse_width_) ||
      !(inverse_width_ > 0.0)) {
    throw std::invalid_argument("the range of losses must have positive, finite width");
  }
  admitted_.assign(settings_.experts, 0.0);
}

std::uint64_t ExpertLearner::decision() const {
  const auto entry = enter();
  return decision_;
}

void ExpertLearner::admit(std::span<const double> losses, std::span<double> to) {
  assert(losses.size() == admitted_.size() && to.size() == losses.size());
  violations_ += simd::kernels().admit_losses(losses.data(), losses.size(), settings_.range.low,
                                              settings_.range.high, inverse_width_, to.data());
}

void ExpertLearner::admit_sums(std::span<const double> losses, double grid, std::span<double> sums,
                               std::span<double> own_losses) {
  const simd::Kernels& k = simd::kernels();
  const auto& range = settings_.range;
  const std::size_t n = admitted_.size();
  const std::size_t rounds = own_losses.size();
  assert(losses.size() == rounds * n && sums.size() == n);
  violations_ += k.admit_sums(rounds, losses.data(), n, range.low, range.high, inverse_width_, grid,
                              sums.data());
  for (std::size_t r = 0; r < rounds; ++r) own_losses[r] = losses[r * n + decision_];
  double* const own = own_losses.data();
  k.admit_losses(own, rounds, range.low, range.high, inverse_width_, own);
}

void ExpertLearner::observe(std::uint64_t decided, std::span<const double> losses) {
  const auto entry = enter();
  require_turn(decided);
  admit(losses, admitted_);
  play_round([this] { learn(admitted_); });
}

void ExpertLearner::play(std::span<const double> losses, std::span<double> own_losses,
                         std::span<std::int64_t> decisions) {
  const std::size_t n = admitted_.size();
  for (std::size_t t = 0; t < decisions.size(); ++t) {
    admit(losses.subspan(t * n, n), admitted_);
    own_losses[t] = admitted_[decision_];
    decisions[t] = static_cast<std::int64_t>(decision_);
    play_round([this] { learn(admitted_); });
  }
}

void ExpertLearner::run(const Exclusive::Entry&, std::span<const double> losses,
                        std::span<double> own_losses, std::span<std::int64_t> decisions) {
  assert(losses.size() == decisions.size() * experts() && own_losses.size() == decisions.size());
  require(decisions.size());
  play(losses, own_losses, decisions);
}

void ExpertLearner::write_state(Archive& archive) const {
  archive.word(round());
  archive.word(decision_);
  archive.word(violations_);
  if (source_) source_->write(archive);
  write_own(archive);
}

void ExpertLearner::read_state(ArchiveReader& archive) {
  read_round(archive);
  decision_ = archive.word_below(settings_.experts);
  violations_ = archive.word();
  if (source_) source_->read(archive);
  read_own(archive);
}

}  // namespace dpoco::experts
