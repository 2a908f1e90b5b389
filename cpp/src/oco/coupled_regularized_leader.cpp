#include "dpoco/oco/coupled_regularized_leader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/grid.hpp"
#include "dpoco/core/statements.hpp"
#include "dpoco/noise/samplers.hpp"
#include "dpoco/simd/elementary.hpp"
#include "leader_law.hpp"

namespace dpoco::oco {
namespace {

using domains::Body;
using losses::LossSum;

// The excess of one law over another is drawn by rejection. A draw is needed with a probability of
// one over the expected number of attempts, so this limit changes the law by less than 1e-5. For
// laws that differ only by rounding errors, unlimited rejection might never end.
constexpr std::uint64_t kMostAttempts = 1ULL << 16;

std::unique_ptr<LeaderLaw> make_law(LossSum& sum,
                                    const CoupledRegularizedLeaderSettings& settings) {
  if (sum.kind() == LossSum::Kind::linear) return make_shifted_gaussian(sum);
  return make_leader_law(
      sum, {.dimension = sum.dimension(),
            .inverse_step = 1.0 / settings.step_size,  // which may be infinite
            .weight = settings.barrier_weight,
            .barrier = settings.barrier_weight > 0.0 ? sum.body().barrier() : nullptr});
}

}  // namespace

CoupledRegularizedLeader::CoupledRegularizedLeader(std::unique_ptr<LossSum> sum,
                                                   CoupledRegularizedLeaderSettings settings,
                                                   std::unique_ptr<random::Source> source)
    : CoupledLearner(std::move(sum), settings.rule, std::move(source)), settings_(settings) {
  check_settings();
  grid_ = released_grid();
  noise_.assign(released_.size(), 0.0);
  scaled_ = noise_;
  law_ = make_law(*sum_, settings_);
  // With growing noise, the first block always ends in a switch, so it needs no density.
  draw(variance(1), rule_.wants_factor() && !settings_.noise_growth);
}

CoupledRegularizedLeader::~CoupledRegularizedLeader() = default;

void CoupledRegularizedLeader::check_settings() const {
  const auto require_that = [](bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
  };
  const auto positive = [](double x) { return x > 0.0 && std::isfinite(x); };
  const auto non_negative = [](double x) { return x >= 0.0 && std::isfinite(x); };
  const CoupledRegularizedLeaderSettings& own = settings_;
  const bool linear = sum_->kind() == LossSum::Kind::linear;
  const bool bounded = sum_->body().kind() != Body::Kind::space;
  if (own.noise_scale > 0.0) {
    refuse_smaller(own.lipschitz, sum_->bounds().lipschitz, "lipschitz");
    refuse_smaller(own.smoothness, sum_->bounds().smoothness, "smoothness");
  }
  require_that(positive(own.step_size) || (std::isinf(own.step_size) && own.noise_growth),
               "step_size must be positive, and finite unless the noise grows");
  require_that(non_negative(own.noise_scale), "noise_scale must not be negative");
  require_that(non_negative(own.smoothness), "smoothness must not be negative");
  require_that(non_negative(own.barrier_weight), "barrier_weight must not be negative");
  require_that((own.barrier_weight > 0.0) == (bounded && !linear),
               "a barrier is for losses with curvature on a bounded domain");
  require_that(!own.noise_growth || (!linear && positive(own.smoothness)),
               "growing noise is for losses with curvature, and needs its bound");
  require_that(own.noise_scale > 0.0 || own.coupling == LeaderCoupling::scheduled,
               "only scheduled switches work without noise");
  switch (own.coupling) {
    case LeaderCoupling::density_ratio:
      require_that(own.noise_growth || (non_negative(own.clip_high) && non_negative(own.clip_low)),
                   "clip widths must not be negative");
      require_that(!own.noise_growth || (positive(own.lipschitz) && positive(own.strong_convexity)),
                   "the clip schedule needs lipschitz and strong_convexity");
      break;
    case LeaderCoupling::scheduled:
      require_that(own.rule.forced == 1.0, "scheduled switches are forced");
      break;
    case LeaderCoupling::maximal:
      require_that(own.rule.forced == 0.0 && own.rule.block == 1 &&
                       own.rule.max_switches == mechanisms::SwitchSettings::kNoCap,
                   "maximal takes an unforced, uncapped decision after every round");
      break;
  }
}

// A power of two well below a public lower bound of the noise's scale at the place of rounding; 0
// without noise.
double CoupledRegularizedLeader::released_grid() const {
  if (settings_.noise_scale == 0.0) return 0.0;
  double spread = settings_.noise_scale;
  if (sum_->kind() == LossSum::Kind::linear) return grid_below(spread, kGridBits);
  // |du/dZ| >= 1 / (largest curvature of the losses and the step). This leaves out the barrier's
  // curvature, so the grid is only coarser, relative to the noise, near the boundary.
  spread /= 1.0 / settings_.step_size + static_cast<double>(horizon()) * settings_.smoothness;
  return grid_within_body(spread);
}

// The variance of a coordinate of the noise in round t's decision.
double CoupledRegularizedLeader::variance(std::uint64_t t) const noexcept {
  const double square = settings_.noise_scale * settings_.noise_scale;
  return settings_.noise_growth ? square * static_cast<double>(t - 1) : square;
}

double CoupledRegularizedLeader::clip_width(std::uint64_t t) const noexcept {
  if (!settings_.noise_growth) return settings_.clip_high;
  if (t < 2) return 0.0;  // always a switch
  const auto n = static_cast<double>(sum_->dimension());
  const auto s = static_cast<double>(t - 1);
  const double log_t = elementary::log(static_cast<double>(horizon()));
  const double g = settings_.lipschitz / settings_.noise_scale;
  return (settings_.smoothness * n / settings_.strong_convexity + 4.0 * n * log_t) / s +
         0.5 * n * elementary::log1p(1.0 / s) + g * g / (2.0 * s) +
         2.0 * g * std::sqrt(n * log_t * (s + 1.0)) / s;
}

double CoupledRegularizedLeader::log_factor(double log_ratio) const noexcept {
  double low = -std::numeric_limits<double>::infinity();
  double value = log_ratio;
  if (settings_.coupling == LeaderCoupling::density_ratio) {
    const double high = clip_width(round() + 1);
    value -= high;
    low = -high - (settings_.noise_growth ? high : settings_.clip_low);
  }
  if (!(value > low)) return low;
  return std::min(value, 0.0);
}

void CoupledRegularizedLeader::draw(double square, bool density) {
  if (square > 0.0) {
    noise::gaussian(*source_, std::sqrt(square), noise_);
  } else {
    std::fill(noise_.begin(), noise_.end(), 0.0);
  }
  law_->draw(noise_, square, density);
  release();
}

// Draws from the law until a point lies in its excess over the law before the round.
void CoupledRegularizedLeader::draw_excess() {
  const double before = variance(rule_.round());
  const double after = variance(rule_.round() + 1);
  const bool counts = counted_;
  for (std::uint64_t k = 0; k < kMostAttempts; ++k) {
    draw(after, true);
    ++attempts_;
    if (counts) {
      law_->stage(true);
    } else {
      law_->stage_zero();
    }
    const double excess = law_->log_ratio(before, after, counts);
    if (mechanisms::lies_in_excess(excess, *source_)) return;
  }
}

void CoupledRegularizedLeader::release() {
  const std::vector<double>& point = law_->point();
  if (sum_->kind() == LossSum::Kind::linear) {
    for (std::size_t i = 0; i < point.size(); ++i) {
      scaled_[i] = nearest_multiple(point[i], grid_) * -settings_.step_size;
    }
    placement_.nearest(CoupledLearner::release(scaled_), released_);
  } else {
    round_point(point, released_);
  }
  embed_released();
}

bool CoupledRegularizedLeader::close_round() {
  const std::uint64_t t = round() + 1;
  const bool first = settings_.noise_growth && t <= settings_.rule.block;
  const bool open = rule_.open();
  const bool density = rule_.wants_factor() && !first;
  double factor = 0.0;
  log_ratio_ = 0.0;
  if (open) {
    counted_ = law_->stage(density);
    if (density) {
      log_ratio_ = law_->log_ratio(variance(t), variance(t + 1), false);
      factor = log_factor(log_ratio_);
    }
    if (counted_) sum_->commit();
  }
  const bool moved = rule_.advance(factor, *source_, first);
  // A point that is about to be replaced needs no density, but the solver starts from it.
  if (open) law_->absorb(density && !moved && rule_.open());
  if (moved) {
    if (settings_.coupling == LeaderCoupling::maximal && !first) {
      draw_excess();
    } else {
      draw(variance(t + 1), rule_.wants_factor());
    }
  }
  copy_counts();
  return moved;
}

double CoupledRegularizedLeader::nonprivate_residual() const noexcept {
  const double scale = settings_.noise_scale;
  return law_->residual() / (scale > 0.0 ? scale : 1.0);
}

void CoupledRegularizedLeader::nonprivate_point(std::span<double> out) const {
  const auto entry = enter();
  std::ranges::copy(law_->point(), out.begin());
}

double CoupledRegularizedLeader::nonprivate_log_density(std::span<const double> u) {
  const auto entry = enter();
  return law_->clone()->log_density(u, variance(round() + 1));
}

double CoupledRegularizedLeader::nonprivate_log_ratio_at(std::span<const double> u) {
  const auto entry = enter();
  if (round() == 0) throw RoundOrderError("no round is over");
  const auto law = law_->clone();
  law->go(u);
  law->stage(true);
  return law->log_ratio(variance(round()), variance(round() + 1), true);
}

void CoupledRegularizedLeader::nonprivate_solve(std::span<const double> z, std::span<double> out) {
  const auto entry = enter();
  const auto law = law_->clone();
  law->draw(z, variance(round() + 1), false);
  std::ranges::copy(law->point(), out.begin());
}

void CoupledRegularizedLeader::write_state(Archive& archive) const {
  archive.word(round());
  archive.word(attempts_);
  rule_.write(archive);
  law_->write(archive);
  sum_->write(archive);
  source_->write(archive);
}

void CoupledRegularizedLeader::read_state(ArchiveReader& archive) {
  const std::uint64_t round = read_round(archive);
  attempts_ = archive.word();
  rule_.read(archive);
  law_->read(archive);
  sum_->read(archive);
  source_->read(archive);
  if (rule_.round() != round) throw StateError("state holds an impossible round");
  copy_counts();
  check_positions();
  release();
}

// A generator that is behind its round would draw noise that was already used.
void CoupledRegularizedLeader::check_positions() const {
  const std::uint64_t n = noise_.size();
  const std::uint64_t decisions = std::min(round(), horizon() - 1) / settings_.rule.block;
  const std::uint64_t switches = rule_.switches();
  const std::uint64_t sure = settings_.noise_growth && decisions > 0 ? 1 : 0;
  const bool maximal = settings_.coupling == LeaderCoupling::maximal;
  const std::uint64_t first = settings_.noise_growth ? 0 : 1;
  std::uint64_t draws = 0;
  if (settings_.noise_scale > 0.0) draws = first + (maximal ? sure + attempts_ : switches);
  // One uniform for every decision until no switches are left.
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  if (settings_.rule.forced < 1.0 && settings_.rule.max_switches > 0) {
    most = decisions - sure;
    least = switches < settings_.rule.max_switches ? most : switches - sure;
  }
  const std::uint64_t uniforms = source_->position(random::Variate::uniform);
  if (attempts_ > uniforms || (!maximal && attempts_ > 0) || switches < sure ||
      (maximal && attempts_ < switches - sure) ||
      source_->position(random::Variate::gaussian) != n * draws || uniforms - attempts_ < least ||
      uniforms - attempts_ > most) {
    throw StateError("state holds a generator at another round");
  }
}

}  // namespace dpoco::oco
