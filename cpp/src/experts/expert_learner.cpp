#include "dpoco/experts/expert_learner.hpp"

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

void ExpertLearner::admit(const double* losses, double* to) {
  violations_ += simd::kernels().admit_losses(losses, admitted_.size(), settings_.range.low,
                                              settings_.range.high, inverse_width_, to);
}

void ExpertLearner::admit_sums(const double* losses, std::uint64_t rounds, double grid,
                               double* sums, double* own_losses) {
  const simd::Kernels& k = simd::kernels();
  const auto& range = settings_.range;
  const std::size_t n = admitted_.size();
  violations_ += k.admit_sums(rounds, losses, n, range.low, range.high, inverse_width_, grid, sums);
  for (std::uint64_t r = 0; r < rounds; ++r) own_losses[r] = losses[r * n + decision_];
  k.admit_losses(own_losses, rounds, range.low, range.high, inverse_width_, own_losses);
}

void ExpertLearner::observe(std::uint64_t decided, const double* losses) {
  const auto entry = enter();
  require_turn(decided);
  admit(losses, admitted_.data());
  play_round([this] { learn(admitted_.data()); });
}

void ExpertLearner::play(const double* losses, std::uint64_t rounds, double* own_losses,
                         std::int64_t* decisions) {
  for (std::uint64_t t = 0; t < rounds; ++t, losses += admitted_.size()) {
    admit(losses, admitted_.data());
    own_losses[t] = admitted_[decision_];
    decisions[t] = static_cast<std::int64_t>(decision_);
    play_round([this] { learn(admitted_.data()); });
  }
}

void ExpertLearner::run(const Exclusive::Entry&, const double* losses, std::uint64_t rounds,
                        double* own_losses, std::int64_t* decisions) {
  require(rounds);
  play(losses, rounds, own_losses, decisions);
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
