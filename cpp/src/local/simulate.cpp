#include "dpoco/local/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "dpoco/local/losses.hpp"
#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/randomizers.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"
#include "rounds.hpp"

namespace dpoco::local {
namespace {

void check(const Play& play) {
  if (play.hypotheses < 1 || play.labels < 1 || play.contexts < 1 || play.first < 1 ||
      play.named >= static_cast<std::int64_t>(play.hypotheses)) {
    throw std::invalid_argument("nothing to simulate");
  }
  for (const std::int64_t context : play.context) {
    if (context < 0 || static_cast<std::uint64_t>(context) >= play.contexts) {
      throw std::invalid_argument("a context is out of range");
    }
  }
}

// Measures the distance of predictions from the truth, and stores weights at checkpoints.
class Meter {
 public:
  Meter(const Play& play, Measured& out)
      : play_(play), out_(out), coefficients_(play.hypotheses), prediction_(play.labels) {}

  void before(std::size_t i, std::span<const double> weights) {
    if (play_.truth.empty()) return;
    const double round = static_cast<double>(play_.first + i);
    const double mixing = play_.mixing < 0.0 ? 1.0 / (round + 1.0) : play_.mixing;
    const double share = mixing / static_cast<double>(play_.hypotheses);
    for (std::size_t j = 0; j < play_.hypotheses; ++j) {
      coefficients_[j] = (1.0 - mixing) * weights[j] + share;
    }
    mixture(find_matrix(play_, i), coefficients_, prediction_);
    const std::size_t at = find_context(play_, i);
    const std::span<const double> truth = play_.truth.subspan(at * play_.labels, play_.labels);
    double divergence = 0.0;
    double distance = 0.0;
    for (std::size_t y = 0; y < play_.labels; ++y) {
      const double p = prediction_[y];
      distance += p > truth[y] ? p - truth[y] : truth[y] - p;
      if (truth[y] <= 0.0) continue;
      divergence += p >= std::numeric_limits<double>::min()
                        ? truth[y] * elementary::log(truth[y] / p)
                        : std::numeric_limits<double>::infinity();
    }
    out_.kl[i] = divergence;
    out_.tv[i] = 0.5 * distance;
  }

  void after(std::size_t i, std::span<const double> weights) {
    const std::uint64_t round = play_.first + i;
    while (next_ < play_.checkpoints.size() && play_.checkpoints[next_] <= round) {
      std::ranges::copy(weights, out_.weights.subspan(next_ * weights.size()).begin());
      ++next_;
    }
  }

 private:
  const Play& play_;
  Measured& out_;
  std::vector<double> coefficients_;
  std::vector<double> prediction_;
  std::size_t next_ = 0;
};

void watch(const Play& play, std::size_t i, const Posterior& learner, Measured& out) {
  if (play.named < 0) return;
  const std::span<const double> logs = learner.log_likelihoods();
  const double own = logs[static_cast<std::size_t>(play.named)];
  double total = 0.0;
  for (const double each : logs) total += elementary::exp(each - own);
  // The posterior 1 / total is below beta / K.
  if (!(total * play.confidence > static_cast<double>(play.hypotheses))) return;
  if (out.misses++ == 0) out.first_miss = play.first + i;
}

}  // namespace

void simulate(const Play& play, const PosteriorPlan& plan, Posterior& learner,
              random::Source& source, Measured& out) {
  check(play);
  if (learner.hypotheses() != play.hypotheses || plan.bits < 1) {
    throw std::invalid_argument("the plan is not that of the learner");
  }
  const BitLaw law(plan.epsilon / static_cast<double>(plan.bits));
  std::optional<SubsetLaw> response;
  std::optional<SubsetLaw> subset;
  if (plan.subset_size > 0) {
    response.emplace(play.labels, 1, plan.epsilon);
    subset.emplace(play.labels, plan.subset_size, plan.epsilon);
  } else if (plan.channel == Channel::subset) {
    throw std::invalid_argument("the plan has no subsets");
  }
  Meter meter(play, out);
  Questions questions(play, plan);
  Choice choice(play, plan);
  std::vector<double> weights(play.hypotheses);
  std::vector<std::int64_t> report(std::max(plan.bits, plan.subset_size));
  learner.weights(learner.temperature(), weights);
  for (std::size_t i = 0; i < play.label.size(); ++i) {
    meter.before(i, weights);
    std::size_t size = plan.subset_size;
    if (plan.channel != Channel::subset) {
      questions.ask(i, weights);
      size = plan.channel == Channel::bits
                 ? 0
                 : choice.size(i, weights, questions.means(), law.contrast());
    }
    if (size == 0) {
      for (std::size_t slot = 0; slot < plan.bits; ++slot) {
        report[slot] = BitLaw::draw(law.threshold(questions.values()[slot]), source) ? 1 : 0;
      }
      learner.add_bits(questions.means(), law.contrast(), std::span(report).first(plan.bits));
    } else {
      const std::span<std::int64_t> drawn = std::span(report).first(size);
      (size == 1 ? *response : *subset).draw(play.label[i], source, drawn);
      const double gain = size == 1 ? plan.response_gain : plan.subset_gain;
      learner.add_subsets(find_matrix(play, i), gain, size, drawn);
      ++out.subsets;
    }
    learner.weights(learner.temperature(), weights);
    meter.after(i, weights);
    watch(play, i, learner, out);
  }
}

void simulate(const Play& play, const HedgePlan& plan, Hedge& learner, random::Source& source,
              Measured& out) {
  check(play);
  if (learner.hypotheses() != play.hypotheses || !(plan.mixing > 0.0)) {
    throw std::invalid_argument("the plan is not that of the learner");
  }
  const BitLaw law(plan.epsilon);
  const std::uint64_t gap = law.high() - law.low();
  const double inverse = gap == 0 ? 0.0 : static_cast<double>(kUnits) / static_cast<double>(gap);
  const std::size_t n = play.hypotheses;
  const double share = 1.0 / static_cast<double>(n);
  const double log_count = elementary::log(static_cast<double>(n));
  std::vector<double> middle(play.contexts * n, 0.0);
  std::vector<double> half(play.contexts * n, plan.half_range);
  if (plan.exact_range) {
    for (std::size_t c = 0; c < play.contexts; ++c) {
      const std::size_t entries = n * play.labels;
      loss_ranges(play.tables.subspan(c * entries, entries), plan.mixing,
                  std::span(middle).subspan(c * n, n), std::span(half).subspan(c * n, n), {});
    }
  }
  std::vector<double> widest(play.contexts);
  for (std::size_t c = 0; c < play.contexts; ++c) {
    const auto first = half.begin() + static_cast<std::ptrdiff_t>(c * n);
    widest[c] = *std::max_element(first, first + static_cast<std::ptrdiff_t>(n));
  }
  Meter meter(play, out);
  for (std::size_t i = 0; i < play.label.size(); ++i) {
    meter.before(i, learner.weights());
    const std::size_t at = find_context(play, i);
    const std::span<const double> own_middle = std::span(middle).subspan(at * n, n);
    const std::span<const double> own_half = std::span(half).subspan(at * n, n);
    const auto index = static_cast<std::size_t>(PublicCoins(plan.seed, play.first + i, 0).below(n));
    double phi = 0.0;
    const std::int64_t label = play.label[i];
    if (play.labels > 1 && label >= 0 && static_cast<std::uint64_t>(label) < play.labels) {
      const LossScale scale{index, own_middle[index], own_half[index], plan.mixing};
      const auto own = find_matrix(play, i).subspan(static_cast<std::size_t>(label));
      loss_values(scale, n, own, play.labels, {&phi, 1});
    }
    const std::int64_t bit = BitLaw::draw(law.threshold(phi), source) ? 1 : 0;
    // Otherwise the bit is a fair coin, or its losses are equal for all hypotheses.
    if (inverse > 0.0 && play.labels > 1 && widest[at] > kSmallestHalfRange) {
      if (plan.adaptive_rate) {
        learner.raise_start(static_cast<double>(n) * inverse * widest[at] * log_count);
      }
      learner.add_coordinate(index, own_middle, inverse * own_half[index] / share, {&bit, 1});
    }
    meter.after(i, learner.weights());
  }
}

}  // namespace dpoco::local
