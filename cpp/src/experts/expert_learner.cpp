#include "dpoco/experts/expert_learner.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::experts {

ExpertLearner::ExpertLearner(ExpertSettings settings, std::unique_ptr<random::Source> source)
    : settings_(settings), source_(std::move(source)) {
  if (settings_.experts < 1 || settings_.horizon < 1) {
    throw std::invalid_argument("experts and horizon must be at least 1");
  }
  inverse_width_ = 1.0 / (settings_.range.high - settings_.range.low);
  if (!(settings_.range.low < settings_.range.high) || !std::isfinite(inverse_width_) ||
      !(inverse_width_ > 0.0)) {
    throw std::invalid_argument("the range of losses must have positive, finite width");
  }
  admitted_.assign(settings_.experts, 0.0);
}

std::uint64_t ExpertLearner::decision() const {
  const auto entry = exclusive_.enter();
  return decision_;
}

void ExpertLearner::require(std::uint64_t rounds) const {
  if (rounds > settings_.horizon - round_) {
    throw HorizonExceeded("the declared horizon is used up");
  }
  source().check_process();
}

void ExpertLearner::admit(const double* losses, double* to) {
  violations_ += simd::kernels().admit_losses(losses, admitted_.size(), settings_.range.low,
                                              settings_.range.high, inverse_width_, to);
}

void ExpertLearner::observe(std::uint64_t decided, const double* losses) {
  const auto entry = exclusive_.enter();
  require(1);
  if (decided != round_) throw RoundOrderError("decide() and observe() alternate");
  admit(losses, admitted_.data());
  learn(admitted_.data());
  finish_rounds(1);
}

void ExpertLearner::play(const double* losses, std::uint64_t rounds, double* own_losses,
                         std::int64_t* decisions) {
  for (std::uint64_t t = 0; t < rounds; ++t, losses += admitted_.size()) {
    admit(losses, admitted_.data());
    own_losses[t] = admitted_[decision_];
    decisions[t] = static_cast<std::int64_t>(decision_);
    learn(admitted_.data());
    finish_rounds(1);
  }
}

void ExpertLearner::run(const Exclusive::Entry&, const double* losses, std::uint64_t rounds,
                        double* own_losses, std::int64_t* decisions) {
  require(rounds);
  play(losses, rounds, own_losses, decisions);
}

void ExpertLearner::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  archive.word(decision_);
  archive.word(violations_);
  if (source_) source_->write(archive);
  write_own(archive);
}

void ExpertLearner::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(settings_.horizon + 1);
  decision_ = archive.word_below(settings_.experts);
  violations_ = archive.word();
  if (source_) source_->read(archive);
  round_ = round;
  read_own(archive);
}

}  // namespace dpoco::experts
