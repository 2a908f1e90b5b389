#include "dpoco/bandits/high_dimensional_bandit.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::bandits {
using frank_wolfe::FrankWolfe;

namespace {

// Products of arms and rounds stay below 2^63.
constexpr std::uint64_t kMostArms = 1ULL << 20;
constexpr std::uint64_t kMostRounds = 1ULL << 42;

}  // namespace

HighDimensionalBandit::HighDimensionalBandit(BanditSettings settings, losses::RecordClipper clipper,
                                             HighDimensionalBanditSettings own,
                                             std::shared_ptr<const domains::Domain> domain,
                                             std::vector<std::unique_ptr<FrankWolfe>> models)
    : BanditLearner(settings, std::move(clipper)),
      own_(own),
      domain_(std::move(domain)),
      models_(std::move(models)) {
  if (arms() > kMostArms || horizon() > kMostRounds || own_.forced > horizon()) {
    throw std::invalid_argument("too many arms or rounds");
  }
  if (own_.batch < 1) throw std::invalid_argument("batch must be at least 1");
  if (!(own_.gap >= 0.0)) throw std::invalid_argument("gap must be at least 0");
  const auto fits = [&](const auto& model) {
    return model && static_cast<std::size_t>(model->dimension()) == dimension();
  };
  if (models_.size() != arms() || !std::all_of(models_.begin(), models_.end(), fits) ||
      static_cast<std::size_t>(domain_->dimension()) != dimension()) {
    throw std::invalid_argument("every arm must have a model of the context's dimension");
  }
  forced_end_ = std::min(arms() * own_.forced, horizon());
  for (std::uint64_t arm = 0; arm < arms(); ++arm) {
    // The constructor checks the clocks, so that no round fails because a clock has run out.
    if (models_[static_cast<std::size_t>(arm)]->horizon() < clock(arm, horizon())) {
      throw std::invalid_argument("the clock of an arm runs past its model's horizon");
    }
  }
  coefficients_.assign(models_.size() * dimension(), 0.0);
  frozen_ = coefficients_;
  early_.assign(models_.size(), 0.0);
  for (std::size_t arm = 0; arm < models_.size(); ++arm) {
    models_[arm]->decision(std::span(coefficients_).subspan(arm * dimension(), dimension()));
  }
  if (is_frozen(0)) frozen_ = coefficients_;
  find_next();
}

bool HighDimensionalBandit::lacks_pulls(std::uint64_t arm) const {
  const FrankWolfe& model = *models_[static_cast<std::size_t>(arm)];
  return model.round() < std::min(own_.forced, model.horizon());
}

void HighDimensionalBandit::find_next() {
  while (next_ < arms() && !lacks_pulls(next_)) ++next_;
}

std::int64_t HighDimensionalBandit::due_arm(std::span<const double> promised) const {
  if (round() >= forced_end_) return -1;
  std::int64_t spare = -1;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint64_t arm = next_; arm < arms(); ++arm) {
    if (!lacks_pulls(arm)) continue;
    const auto index = static_cast<std::size_t>(arm);
    const double pulls = static_cast<double>(models_[index]->round()) + promised[index];
    if (pulls < static_cast<double>(own_.forced)) return static_cast<std::int64_t>(arm);
    if (pulls < least) {
      least = pulls;
      spare = static_cast<std::int64_t>(arm);
    }
  }
  return spare;
}

bool HighDimensionalBandit::has_room(std::uint64_t arm, bool was_due) const {
  return round() >= forced_end_ || (was_due && lacks_pulls(arm));
}

std::uint64_t HighDimensionalBandit::clock(std::uint64_t arm, std::uint64_t rounds) const noexcept {
  const std::uint64_t begin = arm * own_.forced;
  const std::uint64_t own = rounds > begin ? std::min(rounds - begin, own_.forced) : 0;
  return own + (rounds > forced_end_ ? rounds - forced_end_ : 0);
}

// Returns whether all forced rounds are over. This never happens if the horizon ends before them.
bool HighDimensionalBandit::is_frozen(std::uint64_t rounds) const noexcept {
  return rounds >= arms() * own_.forced;
}

double HighDimensionalBandit::selection_margin(const std::vector<double>& coefficients,
                                               std::uint64_t arm, Context context) const {
  const std::size_t d = dimension();
  return simd::dot(std::span(coefficients).subspan(static_cast<std::size_t>(arm) * d, d), context);
}

std::uint64_t HighDimensionalBandit::choose(Context context) {
  return round() < forced_end_ ? next_ : advise(context);
}

std::uint64_t HighDimensionalBandit::advise(Context context) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const bool all = std::isinf(own_.gap) || !is_frozen(round());
  double top = kLowest;
  if (!all) {
    for (std::uint64_t arm = 0; arm < arms(); ++arm) {
      const double margin = selection_margin(frozen_, arm, context);
      early_[static_cast<std::size_t>(arm)] = own_.logistic ? elementary::sigmoid(margin) : margin;
      top = std::max(top, early_[static_cast<std::size_t>(arm)]);
    }
  }
  // The mean reward increases with the margin, so the code compares margins: means close to 1 would
  // round to ties.
  std::uint64_t best = 0;
  double highest = kLowest;
  for (std::uint64_t arm = 0; arm < arms(); ++arm) {
    const double early = early_[static_cast<std::size_t>(arm)];
    // The best arm of the early estimates is always a candidate, however small the gap.
    if (!all && early != top && !(early > top - 0.5 * own_.gap)) continue;
    const double margin = selection_margin(coefficients_, arm, context);
    if (margin > highest) {
      highest = margin;
      best = arm;
    }
  }
  return best;
}

void HighDimensionalBandit::learn(std::uint64_t arm, Context context, double reward) {
  const std::uint64_t now = round();
  const bool forced = now < forced_end_;
  for (std::uint64_t other = 0; other < arms(); ++other) {
    if (forced && other != arm) continue;
    const auto index = static_cast<std::size_t>(other);
    FrankWolfe& model = *models_[index];
    if (other == arm && !context.empty()) {
      model.observe(model.round(), context, reward);
    } else {
      model.skip(model.round());
    }
    if (model.round() % own_.batch == 0) {
      model.decision(std::span(coefficients_).subspan(index * dimension(), dimension()));
    }
  }
  if (!forced) return;
  find_next();
  if (is_frozen(now + 1)) frozen_ = coefficients_;
}

void HighDimensionalBandit::coefficients(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(coefficients_, out.begin());
}

void HighDimensionalBandit::frozen(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(frozen_, out.begin());
}

void HighDimensionalBandit::write_own(Archive& archive) const {
  archive.reals(frozen_);
  for (const auto& model : models_) model->write(archive);
}

void HighDimensionalBandit::read_own(ArchiveReader& archive) {
  const std::vector<double> start = coefficients_;
  // Forced pulls come in any order. After the last forced pull of all arms, every clock is known.
  const bool any_order = round() < arms() * own_.forced;
  std::uint64_t pulls = 0;
  archive.reals(frozen_);
  for (std::uint64_t arm = 0; arm < arms(); ++arm) {
    const auto index = static_cast<std::size_t>(arm);
    FrankWolfe& model = *models_[index];
    model.read(archive);
    const std::uint64_t pulled = model.round();
    if (any_order ? pulled > own_.forced : pulled != clock(arm, round())) {
      throw StateError("state holds an impossible clock");
    }
    pulls += pulled;
    // Two arms on one stream would share their noise.
    if (model.source().stream() != arm) throw StateError("state holds a shared generator");
    model.decision(std::span(coefficients_).subspan(index * dimension(), dimension()));
  }
  if (any_order && pulls != round()) throw StateError("state holds an impossible clock");
  next_ = 0;
  find_next();
  // `known`: the only frozen estimates that are possible now; null if there are several.
  const std::vector<double> zeros(frozen_.size(), 0.0);
  const std::vector<double>* known = nullptr;
  if (!is_frozen(round())) {
    known = &zeros;
  } else if (own_.forced == 0) {
    known = &start;
  } else if (round() == forced_end_) {
    known = &coefficients_;
  }
  constexpr double kTolerance = 1e-6;
  bool possible = known == nullptr ||
                  std::memcmp(frozen_.data(), known->data(), frozen_.size() * sizeof(double)) == 0;
  if (known == nullptr) {
    for (std::size_t arm = 0; arm < models_.size(); ++arm) {
      possible =
          possible &&
          domain_->contains(std::span(frozen_).subspan(arm * dimension(), dimension()), kTolerance);
    }
  }
  if (!possible) throw StateError("state holds impossible estimates");
}

}  // namespace dpoco::bandits
