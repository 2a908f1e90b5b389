#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/local/channel.hpp"
#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/simulate.hpp"

namespace dpoco::local {

// Requests of a simulated round: the questions, and bits or a subset.

inline constexpr std::uint64_t kAdaptiveSlot = 1000;

inline std::size_t find_context(const Play& play, std::size_t i) {
  return play.context.empty() ? 0 : static_cast<std::size_t>(play.context[i]);
}

inline std::span<const double> find_matrix(const Play& play, std::size_t i) {
  const std::size_t entries = play.hypotheses * play.labels;
  return play.tables.subspan(find_context(play, i) * entries, entries);
}

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

  void ask(std::size_t i, std::span<const double> weights) {
    for (std::size_t slot = 0; slot < plan_.bits; ++slot) {
      const std::span<double> means =
          std::span(means_).subspan(slot * play_.hypotheses, play_.hypotheses);
      const std::span<const double> matrix = find_matrix(play_, i);
      const std::int64_t label = play_.label[i];
      const bool inside = label >= 0 && static_cast<std::uint64_t>(label) < play_.labels;
      if (plan_.family == Family::hadamard && play_.labels > 1) {
        const std::uint64_t row = hadamard_row(play_.first + i, slot);
        for (std::size_t y = 0; y < play_.labels; ++y) phi_[y] = sign(row & y);
        query_means(matrix, phi_, means);
      } else {
        threshold(i, slot, weights, matrix, means);
      }
      values_[slot] = inside ? phi_[static_cast<std::size_t>(label)] : 0.0;
    }
  }

  std::span<const double> means() const noexcept { return means_; }
  const std::vector<double>& values() const noexcept { return values_; }

 private:
  static double sign(std::uint64_t common) noexcept {
    return (std::popcount(common) & 1) != 0 ? -1.0 : 1.0;
  }

  std::uint64_t hadamard_row(std::uint64_t round, std::uint64_t slot) const {
    const std::uint64_t size = std::bit_ceil(static_cast<std::uint64_t>(play_.labels));
    return 1 + PublicCoins(plan_.seed, round, slot).below(size - 1);
  }

  void threshold(std::size_t i, std::uint64_t slot, std::span<const double> weights,
                 std::span<const double> matrix, std::span<double> means) {
    const std::size_t count = play_.hypotheses;
    const std::uint64_t round = play_.first + i;
    if (count > 1 && plan_.family == Family::adaptive) {
      PublicCoins other(plan_.seed, round, kAdaptiveSlot + slot);
      if (other.below(10) == 0) {
        pair_question(other, coefficients_);
      } else {
        std::size_t first = 0;
        std::size_t second = 0;
        leading_pair(weights, first, second);
        adaptive_query(weights, matrix, first, second, coefficients_, means, scratch_);
      }
    } else {
      const Family family = plan_.family == Family::adaptive ? Family::bisection : plan_.family;
      threshold_question(family, PublicCoins(plan_.seed, round, slot), members_, coefficients_);
    }
    threshold_means(matrix, coefficients_, phi_, means);
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

// The information of randomized response and of subsets. It is computed once per context if weights
// are uniform.
class Choice {
 public:
  Choice(const Play& play, const PosteriorPlan& plan)
      : play_(play),
        plan_(plan),
        uniform_(play.hypotheses, 1.0 / static_cast<double>(play.hypotheses)),
        statistics_(play.contexts) {}

  // Size of the subset to ask for; 0 for bits.
  std::size_t size(std::size_t i, std::span<const double> weights, std::span<const double> means,
                   double contrast) {
    if (plan_.subset_size == 0 || play_.hypotheses == 1) return 0;
    const std::span<const double> used = plan_.interactive ? weights : uniform_;
    double best = 0.0;
    for (std::size_t slot = 0; slot < plan_.bits; ++slot) {
      best += bit_information(used, means.subspan(slot * used.size(), used.size()), contrast);
    }
    const std::size_t at = find_context(play_, i);
    Statistics& kept = statistics_[at];
    refresh(kept, find_matrix(play_, i), used);
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

  void refresh(Statistics& kept, std::span<const double> matrix, std::span<const double> weights) {
    const std::size_t n = play_.hypotheses;
    const bool fresh = kept.entropies.empty();
    if (fresh) {
      kept.entropies.resize(n);
      kept.squares.resize(n);
      response_entropies(matrix, plan_.contraction, kept.entropies);
      row_squares(matrix, kept.squares);
    }
    if (!fresh && !plan_.interactive) return;
    kept.response = response_information(weights, matrix, kept.entropies, plan_.contraction);
    if (plan_.subset_size >= 2) {
      const double spread = weighted_spread(weights, matrix, kept.squares);
      kept.subset = 0.5 * plan_.signal * spread;
    }
  }

  const Play& play_;
  const PosteriorPlan& plan_;
  std::vector<double> uniform_;
  std::vector<Statistics> statistics_;
};

}  // namespace dpoco::local
