// The uniform prior on all sequences with at most S switches: see switching_paths.hpp.

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/exact_sums.hpp"
#include "dpoco/samplers/categorical.hpp"
#include "dpoco/samplers/switching_paths.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::samplers {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargestCost = 1e150;

// A cost is -log of a weight. The cost of the sum of two weights:
double merge(double a, double b) {
  if (a == kInfinity) return b;
  if (b == kInfinity) return a;
  const double gap = a < b ? b - a : a - b;
  return (a < b ? a : b) - elementary::softplus(-gap);
}

// Level c has the weights a(c, j) of the sequences so far that end in j after c switches. With v(c,
// j) = a(c, j) exp(-rate * loss_j), a round is
//     a(c, j) <- v(c, j) + sum over i != j of v(c - 1, i).
// Level 0 follows from cumulative losses. The other levels are stored as costs relative to an
// offset of the level and not as weights on a common scale: an expert that is hopeless now may be
// the only good one later.
class AtMostPaths final : public SwitchingPaths {
 public:
  AtMostPaths(std::uint64_t experts, std::uint64_t rounds, std::uint64_t switches, double rate)
      : SwitchingPaths(experts, rate),
        rounds_(rounds),
        switches_(experts == 1 ? 0 : std::min(switches, std::max<std::uint64_t>(rounds, 1) - 1)),
        sums_(experts),
        rounded_(experts),
        base_(experts),
        above_(experts),
        below_(experts),
        rows_(switches_ * experts),
        offsets_(switches_ + 1, 0.0),
        minima_(switches_ + 1, 0.0),
        level_costs_(switches_ + 1, 0.0),
        level_race_(switches_ + 1, 0.0) {
    if (rounds < 1 || rounds > (1ULL << 53)) {
      throw std::invalid_argument("the number of rounds must be in [1, 2^53]");
    }
  }

  std::size_t levels() const noexcept override { return switches_ + 1; }

  PathState draw(random::Source& source) override {
    const simd::Kernels& k = simd::kernels();
    std::uint64_t level = 0;
    if (switches_ > 0) {
      weigh_levels(level_costs_, above_);
      for (double& cost : level_costs_) cost = -cost;
      level = draw_by_log_race(source, level_costs_, level_race_);
    }
    costs(level, above_);
    k.affine(-1.0, above_.data(), 0.0, experts(), above_.data());
    return {.level = level, .expert = draw_by_log_race(source, above_, below_)};
  }

  // Of the m steps left, k are switches with weight proportional to binom(m, k) (N - 1)^k. So the
  // next step is a switch with probability E(k) / m.
  double move_chance(std::uint64_t level) const override {
    const std::uint64_t left = steps_left() + 1;  // counting the one to be taken
    const std::uint64_t most = std::min(switches_ - level, left);
    const double others = static_cast<double>(experts()) - 1.0;
    double weight = 1.0;
    double total = 1.0;
    double switches = static_cast<double>(most);
    for (std::uint64_t k = most; k > 0; --k) {
      weight *= static_cast<double>(k) / (static_cast<double>(left - k + 1) * others);
      total += weight;
      switches += static_cast<double>(k - 1) * weight;
      if (total > 1e200) {
        weight *= 1e-200;
        total *= 1e-200;
        switches *= 1e-200;
      }
    }
    return switches / total / static_cast<double>(left);
  }

  double loss(std::span<const double> losses, std::uint64_t expert) const override {
    double rounded;
    ExactSums::round(losses.subspan(expert, 1), {&rounded, 1});
    return rounded;
  }

  void nonprivate_law(std::span<double> out) const override {
    const simd::Kernels& k = simd::kernels();
    assert(out.size() == levels() * experts());
    std::vector<double> masses(levels());
    std::vector<double> scratch(experts());
    weigh_levels(masses, scratch);
    const double least = k.smallest(masses.data(), levels());
    const double sum = k.tilt(nullptr, masses.data(), least, 1.0, levels(), masses.data());
    for (std::uint64_t level = 0; level < levels(); ++level) {
      const std::span<double> law = out.subspan(level * experts(), experts());
      if (level >= filled_) {
        std::ranges::fill(law, 0.0);
        continue;
      }
      costs(level, law);
      double* row = law.data();
      const double total = k.tilt(nullptr, row, k.smallest(row, experts()), 1.0, experts(), row);
      k.affine(masses[level] / (sum * total), row, 0.0, experts(), row);
    }
  }

  std::unique_ptr<SwitchingPaths> copy() const override {
    return std::make_unique<AtMostPaths>(*this);
  }

 protected:
  bool moves() const noexcept override { return switches_ > 0; }

  void absorb(std::span<const double> losses) override {
    const simd::Kernels& k = simd::kernels();
    ExactSums::round(losses, rounded_);
    const double offset = sums_.offset();
    sums_.add(rounded_);
    if (switches_ == 0) return;
    for (std::uint64_t c = 1; c < filled_; ++c) {
      k.axpy(rate(), rounded_.data(), experts(), row(c).data());
      minima_[c] = k.smallest(row(c).data(), experts());
    }
    // All costs are relative to that of the best constant sequence.
    const double least = relative_sums();
    const double shift = rate() * ((sums_.offset() - offset) + (least - least_));
    least_ = least;
    minima_[0] = shift;
    const std::uint64_t top = std::min(filled_, switches_);
    if (top < filled_) normalize(top, above_);
    for (std::uint64_t c = top; c > 0; --c) {  // downwards: a level is read before it is written
      offsets_[c] = mix(c, normalize(c - 1, below_)) - shift;
      std::swap(above_, below_);
    }
    filled_ = std::min(filled_ + 1, switches_ + 1);
  }

  void write_messages(Archive& archive) const override {
    archive.word(filled_);
    sums_.write(archive);
    archive.reals(offsets_, rows_);
  }

  void read_messages(ArchiveReader& archive) override {
    filled_ = archive.word_below(switches_ + 2);
    sums_.read(archive);
    archive.reals(offsets_, rows_);
    // With rates of at most 1e100, runs reach only costs and offsets below 1e120. From 1e150 on,
    // sums of a few of them could overflow. A cost exceeds its level's reference by -log(e^600 + N
    // + 1) or more. Level 0 has no offset.
    const bool possible = std::all_of(offsets_.begin(), offsets_.end(),
                                      [](double x) { return std::abs(x) < kLargestCost; }) &&
                          offsets_[0] == 0.0 &&
                          std::all_of(rows_.begin(), rows_.end(),
                                      [](double x) { return x > -1e3 && x < kLargestCost; });
    if (!possible || filled_ < 1 || filled_ > round() || round() > rounds_ + 1) {
      throw StateError("state holds impossible weights");
    }
    least_ = relative_sums();
  }

 private:
  std::span<double> row(std::uint64_t level) {
    return std::span(rows_).subspan((level - 1) * experts(), experts());
  }
  std::span<const double> row(std::uint64_t level) const {
    return std::span(rows_).subspan((level - 1) * experts(), experts());
  }

  std::uint64_t steps_left() const { return round() < rounds_ ? rounds_ - round() : 0; }

  // base_ <- relative cumulative losses. Returns the smallest.
  double relative_sums() {
    sums_.relative(base_);
    return simd::kernels().smallest(base_.data(), experts());
  }

  // out_j <- v(level, j) / the level's largest. Returns their sum.
  double normalize(std::uint64_t level, std::span<double> out) const {
    const simd::Kernels& k = simd::kernels();
    if (level == 0) return k.tilt(nullptr, base_.data(), least_, rate(), experts(), out.data());
    return k.tilt(nullptr, row(level).data(), minima_[level], 1.0, experts(), out.data());
  }

  // The cost of v(level, j) relative to the level's smallest cost.
  double cost_above_least(std::uint64_t level, std::size_t j) const {
    return level == 0 ? rate() * (base_[j] - least_) : row(level)[j] - minima_[level];
  }

  // The cost of the sum of v(level, i) over all i except the level's first best, relative to the
  // cost of that one.
  double cost_of_the_rest(std::uint64_t level, std::size_t best,
                          std::span<double> normalized) const {
    normalized[best] = 0.0;
    const double rest = simd::kernels().sum(normalized.data(), experts());
    normalized[best] = 1.0;
    // The sum misses entries that were flushed to zero. If it is too small, the loop below adds the
    // costs one by one.
    if (rest > 1e-280) return -elementary::log(rest);
    double cost = kInfinity;
    for (std::size_t i = 0; i < experts(); ++i) {
      if (i != best) cost = merge(cost, cost_above_least(level, i));
    }
    return cost;
  }

  // Ends the round for level c. v is in its row, normalised in above_, and v of the level below is
  // in below_ (the only one if c is new). Returns the reference of the new costs.
  double mix(std::uint64_t c, double total_below) {
    const simd::Kernels& k = simd::kernels();
    const std::size_t n = experts();
    const bool is_new = c >= filled_;
    const double reference_below = offsets_[c - 1] + minima_[c - 1];
    const double gap = is_new ? kInfinity : offsets_[c] + minima_[c] - reference_below;
    // Costs are finite, so one entry is 1. The search ends before the last entry, so that a
    // violation cannot write past the end.
    const auto found = std::find(below_.begin(), below_.end() - 1, 1.0);
    const auto best = static_cast<std::size_t>(found - below_.begin());
    const double rest = cost_of_the_rest(c - 1, best, below_);
    const double own = is_new ? kInfinity : cost_above_least(c, best);
    double* to = row(c).data();
    if (gap > -600.0) {
      // The level below sets the scale. Subtracting entry j from the sum loses nothing to
      // cancellation unless j is the best, whose weight 1 stays in the sum otherwise.
      const double scale = is_new ? 0.0 : elementary::exp(-gap);
      k.affine(scale, above_.data(), total_below, n, to);
      k.axpy(-1.0, below_.data(), n, to);
      to[best] = 1.0;  // keeps the logarithm finite
      k.log(to, n, to);
      k.affine(-1.0, to, 0.0, n, to);
      to[best] = merge(gap + own, rest);
      return reference_below;
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (j == best) continue;
      to[j] = merge(cost_above_least(c, j), -gap - elementary::log(total_below - below_[j]));
    }
    to[best] = merge(own, rest - gap);
    return reference_below + gap;
  }

  // The costs of the weights of one level in the current round, relative to offsets_[level].
  void costs(std::uint64_t level, std::span<double> out) const {
    const simd::Kernels& k = simd::kernels();
    if (level > 0) return void(std::ranges::copy(row(level), out.begin()));
    double* to = out.data();
    sums_.relative(out);
    const double least = k.smallest(to, experts());
    k.affine(1.0, to, -least, experts(), to);  // before the product: an exact difference
    k.affine(rate(), to, 0.0, experts(), to);
  }

  // The cost of each level: the weights of its states times the number of their completions,
  // sum over k <= S - c of binom(m, k) (N - 1)^k, with m steps left.
  void weigh_levels(std::span<double> out, std::span<double> scratch) const {
    const simd::Kernels& k = simd::kernels();
    const std::uint64_t left = steps_left();
    const double others = static_cast<double>(experts()) - 1.0;
    double term = 0.0;  // log of binom(m, k) (N - 1)^k
    double completions = 0.0;
    for (std::uint64_t used = 0; used <= switches_; ++used) {
      const std::uint64_t level = switches_ - used;
      if (used > 0 && used <= left) {
        term += elementary::log(others * static_cast<double>(left - used + 1) /
                                static_cast<double>(used));
        completions = -merge(-completions, -term);
      }
      out[level] = level < filled_ ? -completions : kInfinity;
    }
    for (std::uint64_t level = 0; level < filled_; ++level) {
      costs(level, scratch);
      const double least = k.smallest(scratch.data(), experts());
      const double sum = k.tilt(nullptr, scratch.data(), least, 1.0, experts(), scratch.data());
      out[level] += offsets_[level] + least - elementary::log(sum);
    }
  }

  std::uint64_t rounds_;
  std::uint64_t switches_;
  std::uint64_t filled_ = 1;  // levels that a sequence can have reached so far
  ExactSums sums_;
  double least_ = 0.0;           // smallest cumulative loss, relative to the sums' offset
  std::vector<double> rounded_;  // the round's losses
  std::vector<double> base_;     // cumulative losses, relative to the sums' offset
  std::vector<double> above_;    // scratch for mixing and drawing
  std::vector<double> below_;
  std::vector<double> rows_;     // costs of levels 1, ..., S
  std::vector<double> offsets_;  // offsets of the levels' costs; 0 for level 0
  std::vector<double> minima_;   // minima of the rows while a round ends
  std::vector<double> level_costs_;
  std::vector<double> level_race_;
};

}  // namespace

std::unique_ptr<SwitchingPaths> make_at_most_paths(std::uint64_t experts, std::uint64_t rounds,
                                                   std::uint64_t switches, double rate) {
  return std::make_unique<AtMostPaths>(experts, rounds, switches, rate);
}

}  // namespace dpoco::samplers
