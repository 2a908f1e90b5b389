#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/exclusive.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::mechanisms {

// A mechanism that answers questions on its own, outside a learner: at most `horizon` of them, with
// noise from its own source, one thread at a time. Law: NoisyMax or AboveThreshold.
template <class Law>
class Answers {
 public:
  Answers(Law law, std::uint64_t horizon, std::unique_ptr<random::Source> source)
      : law_(std::move(law)), horizon_(horizon), source_(std::move(source)) {}

  // Returns `ask(law, source, first)`; `first` tells whether no question was answered before.
  // Throws HorizonExceeded after `horizon` answers and StateError in a forked child, before any
  // draw, state unchanged; RoundOrderError while another thread asks.
  template <class Ask>
  auto answer(Ask ask) {
    const auto entry = exclusive_.enter();
    if (round_ >= horizon_) throw HorizonExceeded("the declared number of answers is used up");
    source_->check_process();
    // The exclusive entry decides which answer is the first. Without it, two threads could both be
    // first.
    const auto result = ask(law_, *source_, round_ == 0);
    round_ = round_ + 1;
    return result;
  }

  // Returns `look(law, answers so far)`. Throws RoundOrderError while another thread asks.
  template <class Look>
  auto inspect(Look look) const {
    const auto entry = exclusive_.enter();
    return look(law_, static_cast<std::uint64_t>(round_));
  }

  const auto& settings() const noexcept { return law_.settings(); }
  std::uint64_t horizon() const noexcept { return horizon_; }
  std::uint64_t round() const noexcept { return round_; }
  random::Source& source() noexcept { return *source_; }
  const random::Source& source() const noexcept { return *source_; }

  void write(Archive& archive) const {
    const auto entry = exclusive_.enter();
    archive.word(round_);
    if constexpr (requires { law_.write(archive); }) law_.write(archive);
    source_->write(archive);
  }

  void read(ArchiveReader& archive) {
    const std::uint64_t round = archive.word_below(horizon_ + 1);
    if constexpr (requires { law_.read(archive); }) law_.read(archive);
    source_->read(archive);
    round_ = round;
  }

 private:
  Law law_;
  std::uint64_t horizon_;
  std::unique_ptr<random::Source> source_;
  SharedCount round_;
  Exclusive exclusive_;
};

}  // namespace dpoco::mechanisms
