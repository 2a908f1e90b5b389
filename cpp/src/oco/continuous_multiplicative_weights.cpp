#include "dpoco/oco/continuous_multiplicative_weights.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/grid.hpp"
#include "dpoco/core/statements.hpp"
#include "dpoco/simd/elementary.hpp"
#include "gibbs_couplings.hpp"

namespace dpoco::oco {
namespace {

using domains::Body;
using losses::LossSum;

// If the curvature is unknown, the spread has only an upper bound. These extra bits allow for a
// smaller spread.
constexpr int kUnknownCurvatureBits = 8;

// The excess of one law over another is drawn by rejection. A draw is needed with a probability of
// one over the expected number of attempts, so this limit changes the law by less than 1e-6. For
// laws that differ only by rounding errors, unlimited rejection might never end.
constexpr int kMaxAttempts = 1 << 20;

}  // namespace

ContinuousMultiplicativeWeights::ContinuousMultiplicativeWeights(
    std::unique_ptr<LossSum> sum, ContinuousMultiplicativeWeightsSettings settings,
    std::unique_ptr<random::Source> source)
    : CoupledLearner(std::move(sum), settings.rule, std::move(source)),
      settings_(settings),
      sampler_(sum_->body(), settings.gibbs),
      point_(released_) {
  check_settings();
  grid_ = grid();
  const std::size_t n = point_.size();
  const double beta = settings_.gibbs.inverse_temperature;
  const double lam = settings_.gibbs.regularization;
  if (settings_.coupling == Coupling::density_ratio || settings_.coupling == Coupling::maximal) {
    normalizer_ = make_log_normalizer(*sum_, beta, lam);
  }
  sampler_.sample(*source_, *sum_, point_);
  release();
  if (settings_.coupling == Coupling::anchored) {
    const AnchorSettings own{.count = settings_.anchors,
                             .noise_to_signal = settings_.lipschitz * std::sqrt(beta / lam),
                             .error = settings_.clip_error,
                             .horizon = settings_.rule.horizon,
                             .most = settings_.clip_high};
    anchors_ =
        std::make_unique<Anchors>(sum_->dimension(), own, sum_->kind() == LossSum::Kind::linear);
    std::vector<double> drawn(n * settings_.anchors);
    sampler_.sample_many(*source_, *sum_, drawn);
    for (std::uint64_t k = 0; k < settings_.anchors; ++k) {
      const std::span<double> point = std::span(drawn).subspan(k * n, n);
      round_point(point, point);
      anchors_->add(point, 0);
    }
  }
}

ContinuousMultiplicativeWeights::~ContinuousMultiplicativeWeights() = default;

void ContinuousMultiplicativeWeights::check_settings() const {
  const auto require_that = [](bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
  };
  const auto positive = [](double x) { return x > 0.0 && std::isfinite(x); };
  const auto non_negative = [](double x) { return x >= 0.0 && std::isfinite(x); };
  const mechanisms::SwitchSettings& rule = settings_.rule;
  require_that(settings_.smoothness >= 0.0, "smoothness must not be negative");
  refuse_smaller(settings_.lipschitz, sum_->bounds().lipschitz, "lipschitz");
  refuse_smaller(settings_.smoothness, sum_->bounds().smoothness, "smoothness");
  switch (settings_.coupling) {
    case Coupling::density_ratio:
      require_that(non_negative(settings_.clip_high) && non_negative(settings_.clip_low),
                   "clip widths must not be negative");
      break;
    case Coupling::dartboard:
      require_that(positive(settings_.factor_range), "dartboard needs a positive factor_range");
      require_that(sum_->body().kind() != Body::Kind::space, "dartboard needs a bounded domain");
      break;
    case Coupling::anchored:
      require_that(settings_.anchors >= 1, "anchored needs at least one anchor");
      require_that(positive(settings_.lipschitz) && positive(settings_.clip_error),
                   "anchored needs a positive lipschitz and clip_error");
      require_that(positive(settings_.clip_high) && settings_.clip_high == settings_.clip_low,
                   "anchored needs equal, positive clip widths");
      break;
    case Coupling::scheduled:
      require_that(rule.forced == 1.0, "scheduled switches are forced");
      break;
    case Coupling::maximal:
      require_that(rule.forced == 0.0 && rule.block == 1,
                   "maximal takes an unforced decision after every round");
      break;
  }
}

// A public lower bound of the order of the laws' standard deviation per coordinate.
double ContinuousMultiplicativeWeights::grid() const {
  const bool linear = sum_->kind() == LossSum::Kind::linear;
  const bool unknown = !linear && !std::isfinite(settings_.smoothness);
  const double curvature =
      linear || unknown ? 0.0 : static_cast<double>(horizon()) * settings_.smoothness;
  double spread = 1.0 / std::sqrt(settings_.gibbs.inverse_temperature *
                                  (settings_.gibbs.regularization + curvature));
  return grid_within_body(spread, kGridBits + (unknown ? kUnknownCurvatureBits : 0));
}

void ContinuousMultiplicativeWeights::release() {
  round_point(point_, released_);
  embed_released();
}

// The log factor of the loss that is staged and committed.
double ContinuousMultiplicativeWeights::log_factor(bool& forced) {
  const double beta = settings_.gibbs.inverse_temperature;
  // A custom loss without a finite value counts as zero.
  const auto finite = [](double x) { return std::isfinite(x) ? x : 0.0; };
  const double loss = sum_->staged_value(point_);
  switch (settings_.coupling) {
    case Coupling::density_ratio: {
      normalizer_->advance(*sum_);
      const double scaled = finite(normalizer_->log_ratio(loss)) - settings_.clip_high;
      return std::clamp(scaled, -settings_.clip_high - settings_.clip_low, 0.0);
    }
    case Coupling::dartboard:
      return std::clamp(finite(-beta * (loss - sum_->staged_minimum())),
                        -beta * settings_.factor_range, 0.0);
    case Coupling::anchored: {
      const double most = anchors_->most();
      const double width = anchors_->width(round() + 1);
      forced = width > most;
      const double excess = finite(-beta * (loss - anchors_->mean_loss(*sum_)));
      return std::clamp(excess - std::min(width, most), -2.0 * most, 0.0);
    }
    case Coupling::maximal:
      normalizer_->advance(*sum_);
      return std::min(finite(normalizer_->log_ratio(loss)), 0.0);
    case Coupling::scheduled:
      break;
  }
  return 0.0;
}

bool ContinuousMultiplicativeWeights::close_round() {
  bool forced = false;
  log_factor_ = 0.0;
  if (rule_.open()) {  // otherwise no decision depends on the loss any more
    sum_->commit();
    if (rule_.wants_factor()) log_factor_ = log_factor(forced);
  }
  const bool moved = rule_.advance(log_factor_, *source_, forced);
  if (moved) draw();
  copy_counts();
  return moved;
}

void ContinuousMultiplicativeWeights::draw() {
  if (anchors_) anchors_->add(released_, drawn_);
  if (settings_.coupling == Coupling::maximal) {
    draw_excess();
  } else {
    sampler_.sample(*source_, *sum_, point_);
  }
  release();
  drawn_ = rule_.round();
}

// Draws from the density proportional to (mu' - mu)^+: keeps a draw u of mu' with probability 1 -
// mu(u)/mu'(u).
void ContinuousMultiplicativeWeights::draw_excess() {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    sampler_.sample(*source_, *sum_, point_);
    const double log_ratio = normalizer_->log_ratio(sum_->staged_value(point_));
    if (log_ratio > 0.0 && mechanisms::lies_in_excess(log_ratio, *source_)) return;
  }
}

double ContinuousMultiplicativeWeights::nonprivate_log_change() const noexcept {
  return normalizer_ ? normalizer_->log_change() : 0.0;
}

void ContinuousMultiplicativeWeights::nonprivate_point(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(point_, out.begin());
}

void ContinuousMultiplicativeWeights::nonprivate_anchor_mean(std::span<double> out) const {
  const auto entry = enter();
  if (!anchors_) throw std::logic_error("this coupling has no anchors");
  std::ranges::copy(anchors_->mean(), out.begin());
}

void ContinuousMultiplicativeWeights::write_state(Archive& archive) const {
  archive.word(static_cast<std::uint64_t>(settings_.coupling));
  archive.real(settings_.gibbs.inverse_temperature);
  archive.real(settings_.gibbs.regularization);
  rule_.write(archive);
  archive.word(drawn_);
  archive.reals(point_);
  sum_->write(archive);
  if (normalizer_) normalizer_->write(archive);
  if (anchors_) anchors_->write(archive);
  source_->write(archive);
}

void ContinuousMultiplicativeWeights::read_state(ArchiveReader& archive) {
  constexpr double kTolerance = 1e-6;
  if (archive.word() != static_cast<std::uint64_t>(settings_.coupling) ||
      archive.real() != settings_.gibbs.inverse_temperature ||
      archive.real() != settings_.gibbs.regularization) {
    throw StateError("state belongs to other parameters");
  }
  rule_.read(archive);
  drawn_ = archive.word_below(rule_.round() + 1);
  archive.reals(point_);
  sum_->read(archive);
  if (normalizer_) normalizer_->read(archive, *sum_);
  if (anchors_) anchors_->read(archive, sum_->body(), drawn_);
  source_->read(archive);
  // The current point was drawn at the start or at the end of a block. It was drawn at the start if
  // and only if no switch has occurred.
  if (drawn_ % settings_.rule.block != 0 || (drawn_ == 0) != (rule_.switches() == 0)) {
    throw StateError("state holds impossible switches");
  }
  if (!sum_->body().contains(point_, kTolerance)) {
    throw StateError("state holds a decision outside the domain");
  }
  check_positions();
  release();
  set_round(rule_.round());
  copy_counts();
}

// A generator that is behind its round would draw noise that was already used. Samplers with
// rejection use any number of variates, but each draw uses some: one per coordinate if coordinates
// are independent.
void ContinuousMultiplicativeWeights::check_positions() const {
  std::uint64_t variates = 0;
  for (const random::Variate kind :
       {random::Variate::uniform, random::Variate::gaussian, random::Variate::exponential}) {
    variates += source_->position(kind);
  }
  const Body::Kind shape = sum_->body().kind();
  const bool separate = sum_->kind() == LossSum::Kind::linear &&
                        (shape == Body::Kind::space || shape == Body::Kind::box);
  const std::uint64_t each = separate ? point_.size() : 1;
  const std::uint64_t draws = 1 + (anchors_ ? settings_.anchors : 0) + rule_.switches();
  if (source_->position(random::Variate::uniform) < rule_.draws() ||
      variates < rule_.draws() + each * draws) {
    throw StateError("state holds a generator at another round");
  }
}

}  // namespace dpoco::oco
