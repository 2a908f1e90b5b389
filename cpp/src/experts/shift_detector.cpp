#include "dpoco/experts/shift_detector.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"

namespace dpoco::experts {

ShiftDetector::ShiftDetector(ExpertSettings settings, const ShiftDetectorSettings& own,
                             std::unique_ptr<random::Source> source)
    : ExpertLearner(settings, std::move(source)),
      detects_(own.detects && settings.experts > 1),
      threshold_(own.threshold),
      bias_(own.bias),
      instance_(own.selection),
      statistic_(own.statistic),
      test_(own.test) {
  if (own.selection.candidates != settings.experts || own.selection.largest ||
      own.statistic.experts != settings.experts) {
    throw std::invalid_argument("selection and statistic must be of as many experts");
  }
  if (own.first.has_value() && *own.first >= settings.experts) {
    throw std::invalid_argument("the first expert must be below the number of experts");
  }
  if (!std::isfinite(threshold_) || own.test.alarms != 1) {
    throw std::invalid_argument("the threshold must be finite, and armed for one alarm");
  }
  set_decision(own.first.has_value() ? *own.first : instance_.uniform(this->source()));
  if (detects_) test_.arm(this->source());
}

void ShiftDetector::learn(std::span<const double> losses) {
  const bool last = ends_last_round();
  if (detects_) {
    const double allowance = bias_.after(instance_.selected_from());
    const double excess = statistic_.update(current(), losses, allowance) - threshold_;
    // After the last round no alarm is useful.
    if (!last && test_.test(excess, source())) {
      alarms_.push_back(round());
      instance_.restart();
      statistic_.reset();
      test_.arm(source());
      return;  // the decision stays until the new instance selects one
    }
  }
  const auto selected = instance_.learn(losses, last, source());
  if (selected.has_value()) set_decision(*selected);
}

std::vector<std::uint64_t> ShiftDetector::alarms() const {
  const auto entry = enter();
  return alarms_;
}

void ShiftDetector::write_own(Archive& archive) const {
  archive.word(alarms_.size());
  for (const std::uint64_t alarm : alarms_) archive.word(alarm);
  instance_.write(archive);
  if (!detects_) return;
  statistic_.write(archive);
  test_.write(archive);
}

void ShiftDetector::read_own(ArchiveReader& archive) {
  const std::uint64_t count = archive.word_below(round() + 1);
  if (count > 0 && !detects_) throw StateError("state holds alarms of no detector");
  alarms_.clear();
  std::uint64_t start = 0;  // of the current instance
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t alarm = archive.word_below(round());
    if (alarm < start) throw StateError("state holds alarms out of order");
    alarms_.push_back(alarm);
    start = alarm + 1;
  }
  instance_.read(archive);
  bool consistent = instance_.rounds() == round() - start;
  if (detects_) {
    statistic_.read(archive);
    test_.read(archive);
    consistent = consistent && statistic_.round() == instance_.rounds() && test_.armed();
  }
  if (!consistent) throw StateError("state holds impossible rounds");
}

}  // namespace dpoco::experts
