#include "dpoco/local/simulate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "dpoco/local/channel.hpp"
#include "dpoco/local/losses.hpp"
#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/randomizers.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::local {
namespace {

constexpr std::uint64_t kAdaptiveSlot = 1000;

std::size_t context_of(const Play& play, std::size_t i) {
  return play.context == nullptr ? 0 : static_cast<std::size_t>(play.context[i]);
}

const double* matrix_of(const Play& play, std::size_t i) {
  return play.tables + context_of(play, i) * play.hypotheses * play.labels;
}

void check(const Play& play) {
  if (play.hypotheses < 1 || play.labels < 1 || play.contexts < 1 || play.first < 1 ||
      play.named >= static_cast<std::int64_t>(play.hypotheses)) {
    throw std::invalid_argument("nothing to simulate");
  }
  for (std::size_t i = 0; play.context != nullptr && i < play.rounds; ++i) {
    if (play.context[i] < 0 || static_cast<std::uint64_t>(play.context[i]) >= play.contexts) {
      throw std::invalid_argument("a context is out of range");
    }
  }
}

// Distances of predictions from the truth, and weights at checkpoints.
class Meter {
 public:
  Meter(const Play& play, Measured& out)
      : play_(play), out_(out), coefficients_(play.hypotheses), prediction_(play.labels) {}

  void before(std::size_t i, const double* weights) {
    if (play_.truth == nullptr) return;
    const double round = static_cast<double>(play_.first + i);
    const double mixing = play_.mixing < 0.0 ? 1.0 / (round + 1.0) : play_.mixing;
    const double share = mixing / static_cast<double>(play_.hypotheses);
    for (std::size_t j = 0; j < play_.hypotheses; ++j) {
      coefficients_[j] = (1.0 - mixing) * weights[j] + share;
    }
    mixture(matrix_of(play_, i), coefficients_.data(), play_.hypotheses, play_.labels, 0.0, nullptr,
            prediction_.data());
    const std::size_t at = context_of(play_, i);
    const double* truth = play_.truth + at * play_.labels;
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

  void after(std::size_t i, const double* weights) {
    const std::uint64_t round = play_.first + i;
    while (next_ < play_.checkpoint_count && play_.checkpoints[next_] <= round) {
      std::copy_n(weights, play_.hypotheses, out_.weights + next_ * play_.hypotheses);
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

// The queries of one round, their values at the user's label and their means.
class Questions {
 public:
  Questions(const Play& play, const PosteriorPlan& plan)
      : play_(play),
        plan_(plan),
        means_(plan.bits * play.hypotheses),
        phi_(play.labels),
        coefficients_(play.hypotheses),
        scratch_(2 * play.hypotheses),
        members_(play.hypotheses),
        values_(plan.bits) {}

  void ask(std::size_t i, const double* weights) {
    for (std::size_t slot = 0; slot < plan_.bits; ++slot) {
      double* means = means_.data() + slot * play_.hypotheses;
      const double* matrix = matrix_of(play_, i);
      const std::int64_t label = play_.label[i];
      const bool inside = label >= 0 && static_cast<std::uint64_t>(label) < play_.labels;
      if (plan_.family == Family::hadamard && play_.labels > 1) {
        const std::uint64_t row = hadamard_row(play_.first + i, slot);
        for (std::size_t y = 0; y < play_.labels; ++y) phi_[y] = sign(row & y);
        query_means(matrix, phi_.data(), play_.hypotheses, play_.labels, means);
      } else {
        threshold(i, slot, weights, matrix, means);
      }
      values_[slot] = inside ? phi_[static_cast<std::size_t>(label)] : 0.0;
    }
  }

  const double* means() const noexcept { return means_.data(); }
  const std::vector<double>& values() const noexcept { return values_; }

 private:
  static double sign(std::uint64_t common) noexcept {
    return (std::popcount(common) & 1) != 0 ? -1.0 : 1.0;
  }

  std::uint64_t hadamard_row(std::uint64_t round, std::uint64_t slot) const {
    const std::uint64_t size = std::bit_ceil(static_cast<std::uint64_t>(play_.labels));
    return 1 + PublicCoins(plan_.seed, round, slot).below(size - 1);
  }

  void pair(PublicCoins& coins) {
    const std::uint64_t count = play_.hypotheses;
    const std::uint64_t first = coins.below(count);
    const std::uint64_t other = coins.below(count - 1);
    coefficients_[static_cast<std::size_t>(first)] = 1.0;
    coefficients_[static_cast<std::size_t>(other + (other >= first ? 1 : 0))] = -1.0;
  }

  void threshold(std::size_t i, std::uint64_t slot, const double* weights, const double* matrix,
                 double* means) {
    const std::size_t count = play_.hypotheses;
    const std::uint64_t round = play_.first + i;
    PublicCoins coins(plan_.seed, round, slot);
    std::fill(coefficients_.begin(), coefficients_.end(), 0.0);
    if (count == 1) {
      // Nothing to ask.
    } else if (plan_.family == Family::adaptive) {
      PublicCoins other(plan_.seed, round, kAdaptiveSlot + slot);
      if (other.below(10) == 0) {
        pair(other);
      } else {
        std::size_t first = 0;
        std::size_t second = 0;
        leading_pair(weights, count, first, second);
        adaptive_query(weights, matrix, count, play_.labels, first, second, coefficients_.data(),
                       means, scratch_.data());
      }
    } else if (plan_.family == Family::scheffe) {
      pair(coins);
    } else if (plan_.family == Family::mean_test) {
      const double share = 1.0 / static_cast<double>(count);
      std::fill(coefficients_.begin(), coefficients_.end(), -share);
      coefficients_[static_cast<std::size_t>(coins.below(count))] += 1.0;
    } else {
      const std::size_t half = count / 2;
      coins.shuffle(count, half, members_.data());
      std::fill(coefficients_.begin(), coefficients_.end(),
                -1.0 / static_cast<double>(count - half));
      for (std::size_t m = 0; m < half; ++m) {
        coefficients_[members_[m]] = 1.0 / static_cast<double>(half);
      }
    }
    threshold_means(matrix, coefficients_.data(), count, play_.labels, phi_.data(), means);
  }

  const Play& play_;
  const PosteriorPlan& plan_;
  std::vector<double> means_;
  std::vector<double> phi_;
  std::vector<double> coefficients_;
  std::vector<double> scratch_;
  std::vector<std::uint32_t> members_;
  std::vector<double> values_;
};

// Informations of randomized response and of subsets, computed once a context where weights are
// uniform.
class Choice {
 public:
  Choice(const Play& play, const PosteriorPlan& plan)
      : play_(play),
        plan_(plan),
        uniform_(play.hypotheses, 1.0 / static_cast<double>(play.hypotheses)),
        statistics_(play.contexts) {}

  // Size of the subset to ask for; 0 for bits.
  std::size_t size(std::size_t i, const double* weights, const double* means, double contrast) {
    if (plan_.subset_size == 0 || play_.hypotheses == 1) return 0;
    const double* used = plan_.interactive ? weights : uniform_.data();
    double best = 0.0;
    for (std::size_t slot = 0; slot < plan_.bits; ++slot) {
      best += bit_information(used, means + slot * play_.hypotheses, play_.hypotheses, contrast);
    }
    const std::size_t at = context_of(play_, i);
    Statistics& kept = statistics_[at];
    refresh(kept, matrix_of(play_, i), used);
    std::size_t chosen = 0;
    if (kept.response > best) {
      best = kept.response;
      chosen = 1;
    }
    return plan_.subset_size >= 2 && kept.subset > best ? plan_.subset_size : chosen;
  }

 private:
  struct Statistics {
    std::vector<double> entropies;
    std::vector<double> squares;
    double response = 0.0;
    double subset = 0.0;
  };

  void refresh(Statistics& kept, const double* matrix, const double* weights) {
    const std::size_t n = play_.hypotheses;
    const bool fresh = kept.entropies.empty();
    if (fresh) {
      kept.entropies.resize(n);
      kept.squares.resize(n);
      response_entropies(matrix, n, play_.labels, plan_.contraction, kept.entropies.data());
      row_squares(matrix, n, play_.labels, kept.squares.data());
    }
    if (!fresh && !plan_.interactive) return;
    kept.response = response_information(weights, matrix, kept.entropies.data(), n, play_.labels,
                                         plan_.contraction);
    if (plan_.subset_size >= 2) {
      const double spread = weighted_spread(weights, matrix, kept.squares.data(), n, play_.labels);
      kept.subset = 0.5 * plan_.signal * spread;
    }
  }

  const Play& play_;
  const PosteriorPlan& plan_;
  std::vector<double> uniform_;
  std::vector<Statistics> statistics_;
};

void watch(const Play& play, std::size_t i, const Posterior& learner, Measured& out) {
  if (play.named < 0) return;
  const double* logs = learner.log_likelihoods();
  const double own = logs[play.named];
  double total = 0.0;
  for (std::size_t j = 0; j < play.hypotheses; ++j) total += elementary::exp(logs[j] - own);
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
  learner.weights(learner.temperature(), weights.data());
  for (std::size_t i = 0; i < play.rounds; ++i) {
    meter.before(i, weights.data());
    std::size_t size = plan.subset_size;
    if (plan.channel != Channel::subset) {
      questions.ask(i, weights.data());
      size = plan.channel == Channel::bits
                 ? 0
                 : choice.size(i, weights.data(), questions.means(), law.contrast());
    }
    if (size == 0) {
      for (std::size_t slot = 0; slot < plan.bits; ++slot) {
        report[slot] = BitLaw::draw(law.threshold(questions.values()[slot]), source) ? 1 : 0;
      }
      learner.add_bits(questions.means(), law.contrast(), plan.bits, report.data(), 1);
    } else {
      (size == 1 ? *response : *subset).draw(play.label[i], source, report.data());
      const double gain = size == 1 ? plan.response_gain : plan.subset_gain;
      learner.add_subsets(matrix_of(play, i), play.labels, gain, size, report.data(), 1);
      ++out.subsets;
    }
    learner.weights(learner.temperature(), weights.data());
    meter.after(i, weights.data());
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
      loss_ranges(play.tables + c * n * play.labels, n, play.labels, plan.mixing,
                  middle.data() + c * n, half.data() + c * n, nullptr);
    }
  }
  Meter meter(play, out);
  for (std::size_t i = 0; i < play.rounds; ++i) {
    meter.before(i, learner.weights());
    const std::size_t at = context_of(play, i);
    const double* own_middle = middle.data() + at * n;
    const double* own_half = half.data() + at * n;
    const auto index = static_cast<std::size_t>(PublicCoins(plan.seed, play.first + i, 0).below(n));
    double phi = 0.0;
    const std::int64_t label = play.label[i];
    if (play.labels > 1 && label >= 0 && static_cast<std::uint64_t>(label) < play.labels) {
      const LossScale scale{index, own_middle[index], own_half[index], plan.mixing};
      loss_values(scale, n, matrix_of(play, i) + label, play.labels, 1, &phi);
    }
    const std::int64_t bit = BitLaw::draw(law.threshold(phi), source) ? 1 : 0;
    if (inverse > 0.0 && play.labels > 1) {  // else the bit is a coin
      if (plan.adaptive_rate) {
        const double largest = *std::max_element(own_half, own_half + n);
        learner.raise_start(static_cast<double>(n) * inverse * largest * log_count);
      }
      learner.add_coordinate(index, own_middle, inverse * own_half[index] / share, &bit, 1);
    }
    meter.after(i, learner.weights());
  }
}

}  // namespace dpoco::local
