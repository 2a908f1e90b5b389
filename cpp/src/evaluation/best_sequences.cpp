#include "dpoco/evaluation/best_sequences.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace dpoco::evaluation {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_entries(const LossTable& table) {
  if (table.rounds < 1 || table.experts < 1 || table.experts >= kNone) {
    throw std::invalid_argument("losses must have rounds and fewer than 2^32 - 1 experts");
  }
}

// Before `round` the sequence was with `expert`; `parent` describes the sequence before that.
struct Switch {
  std::uint64_t round;
  std::uint32_t expert;
  std::uint32_t parent;
};

// The switches of all sequences that may still turn out best. A parent is older than its children,
// so one pass backwards finds the nodes that are still reachable, and one pass forwards moves them
// together.
class SwitchTree {
 public:
  std::uint32_t add(Switch node) {
    nodes_.push_back(node);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const Switch& operator[](std::uint32_t node) const { return nodes_[node]; }
  // The reachable nodes are at most those of the last collection plus those added since.
  bool full(std::uint64_t coming) const { return nodes_.size() + coming > limit_; }

  void collect(std::vector<std::uint32_t>& leaves) {
    moved_.assign(nodes_.size(), kNone);
    for (const std::uint32_t leaf : leaves) {
      if (leaf != kNone) moved_[leaf] = 0;
    }
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (moved_[i] != kNone && nodes_[i].parent != kNone) moved_[nodes_[i].parent] = 0;
    }
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (moved_[i] == kNone) continue;
      Switch node = nodes_[i];
      if (node.parent != kNone) node.parent = moved_[node.parent];
      moved_[i] = kept;
      nodes_[kept++] = node;
    }
    nodes_.resize(kept);
    for (std::uint32_t& leaf : leaves) {
      if (leaf != kNone) leaf = moved_[leaf];
    }
    limit_ = std::max(limit_, 2 * (nodes_.size() + leaves.size()));
    if (limit_ >= kNone) throw std::length_error("too many switches for this table");
  }

 private:
  std::vector<Switch> nodes_;
  std::vector<std::uint32_t> moved_;
  std::size_t limit_ = std::size_t{1} << 16;
};

// The smallest entry of a layer and the lowest index that has it.
struct Least {
  double value;
  std::uint32_t expert;
};

// For every expert j, layer c has the smallest loss of a sequence with at most c switches that is
// with j now: D(c, j) <- l(j) + min(D(c, j), min_i D(c - 1, i)).
class Layers {
 public:
  Layers(std::uint64_t experts, std::uint64_t switches)
      : experts_(experts),
        costs_((switches + 1) * experts, 0.0),
        latest_(costs_.size(), kNone),
        least_(switches + 1, Least{0.0, 0}) {}

  void advance(std::uint64_t round, std::span<const double> losses) {
    if (tree_.full(least_.size())) tree_.collect(latest_);
    // Goes downwards, because layer c needs layer c - 1 as it was before this round. No sequence
    // switches in the first round.
    for (std::size_t c = least_.size(); c-- > 0;) {
      if (c > 0 && round > 0) switch_into(c, round);
      double* const cost = costs_.data() + c * experts_;
      for (std::uint64_t j = 0; j < experts_; ++j) cost[j] += losses[j];
      const double* const at = std::min_element(cost, cost + experts_);
      least_[c] = {*at, static_cast<std::uint32_t>(at - cost)};
    }
  }

  double least(std::size_t c) const { return least_[c].value; }

  void recover(std::size_t c, std::vector<std::uint32_t>& decisions) const {
    std::uint32_t expert = least_[c].expert;
    std::uint64_t end = decisions.size();
    const auto fill_from = [&](std::uint64_t start) {
      for (; end > start; --end) decisions[end - 1] = expert;
    };
    for (std::uint32_t node = latest_[c * experts_ + expert]; node != kNone;) {
      fill_from(tree_[node].round);
      expert = tree_[node].expert;
      node = tree_[node].parent;
    }
    fill_from(0);
  }

 private:
  void switch_into(std::size_t c, std::uint64_t round) {
    const auto [from, expert] = least_[c - 1];
    double* const cost = costs_.data() + c * experts_;
    std::uint32_t* const latest = latest_.data() + c * experts_;
    std::uint32_t node = kNone;
    for (std::uint64_t j = 0; j < experts_; ++j) {
      if (!(from < cost[j])) continue;  // ties do not switch
      if (node == kNone) {
        node = tree_.add({round, expert, latest_[(c - 1) * experts_ + expert]});
      }
      cost[j] = from;
      latest[j] = node;
    }
  }

  std::uint64_t experts_;
  std::vector<double> costs_;          // layers of `experts` entries
  std::vector<std::uint32_t> latest_;  // the latest switch of the sequences behind them
  std::vector<Least> least_;           // of each layer
  SwitchTree tree_;
};

// Kadane's rule for all experts at once, if every round costs `toll` more.
double largest_interval_sum(const LossTable& table, std::span<const double> own_losses, double toll,
                            std::vector<double>& ending) {
  std::fill(ending.begin(), ending.end(), -kInfinity);  // no interval ends before the first round
  double largest = -kInfinity;
  for (std::uint64_t t = 0; t < table.rounds; ++t) {
    const auto row = table.losses.subspan(t * table.experts, table.experts);
    const double own = own_losses[t] - toll;
    double best = -kInfinity;
    for (std::uint64_t j = 0; j < table.experts; ++j) {
      const double kept = ending[j] > 0.0 ? ending[j] : 0.0;
      ending[j] = kept + (own - row[j]);
      best = ending[j] > best ? ending[j] : best;
    }
    largest = std::max(largest, best);
  }
  return largest;
}

}  // namespace

BestSequence best_sequence(const LossTable& table, std::uint64_t switches) {
  require_entries(table);
  if (switches >= table.rounds) throw std::invalid_argument("switches must be below the rounds");
  Layers layers(table.experts, switches);
  for (std::uint64_t t = 0; t < table.rounds; ++t) {
    layers.advance(t, table.losses.subspan(t * table.experts, table.experts));
  }
  BestSequence best{std::vector<double>(switches + 1), std::vector<std::uint32_t>(table.rounds)};
  for (std::size_t c = 0; c <= switches; ++c) best.costs[c] = layers.least(c);
  std::size_t fewest = switches;
  while (fewest > 0 && best.costs[fewest - 1] == best.costs[switches]) --fewest;
  layers.recover(fewest, best.decisions);
  return best;
}

double interval_regret(const LossTable& table, std::span<const double> own_losses,
                       double allowance) {
  assert(own_losses.size() == table.rounds);
  require_entries(table);
  std::vector<double> ending(table.experts);
  if (allowance == 0.0) {
    return std::max(0.0, largest_interval_sum(table, own_losses, 0.0, ending));
  }
  double largest = 0.0;
  // The tangent at w = root^2 is (allowance / 2) (root + w / root).
  for (double root = 1.0;; root *= 2.0) {
    const double toll = 0.5 * allowance / root;
    const double sum = largest_interval_sum(table, own_losses, toll, ending);
    largest = std::max(largest, sum - 0.5 * allowance * root);
    if (root * root >= static_cast<double>(table.rounds)) return largest;
  }
}

}  // namespace dpoco::evaluation
