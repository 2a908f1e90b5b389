#pragma once

#include <cstdint>
#include <vector>

#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/newton.hpp"

namespace dpoco::bandits {

struct LinUcbSettings {
  std::uint64_t batch = 1;  // rounds per release
  double kept = 1.0;  // weight of past statistics after each further release; 1: no forgetting
  // Only for a sum WITHOUT noise, batches of one round, and kept = 1. V then changes by x x', and
  // its factor is updated with the raw context in O(d^2), instead of being computed from the
  // released sum.
  bool exact = false;
  double reward_weight = 1.0;  // a in the statistics (x x', a r x)
  double shift = 1.0;          // V = noisy sum of x x' + shift I
  // The confidence width after the release of t rounds, counting rounds that are not forgotten, is
  //   exploration (spread sqrt(log_term + d log(1 + t growth)) + bias).
  double exploration = 1.0;
  double spread = 1.0;
  double log_term = 0.0;
  double growth = 0.0;
  double bias = 0.0;
};

// Upper confidence bounds on private statistics, with one linear model for each arm (Shariff and
// Sheffet, "Differentially private contextual linear bandits", with disjoint arms). One continual
// sum has the statistics of all arms; an arm that is not chosen adds zeros. It is released every
// `batch` rounds, and then each arm's V is factored. The chosen arm is argmax <x, V^-1 u> + width
// sqrt(x' V^-1 x), the lowest index on ties. Only the sum reads data: docs/privacy/linucb.md. A
// round takes O(K d^2). A release takes one push of K (d (d + 3) / 2) entries and, unless exact,
// O(K d^3 / 3). No allocation.
class LinUcb final : public BanditLearner {
 public:
  // The sum must have the dimension `sum_dimension` and a horizon of at least (horizon - 1) /
  // batch, because no decision follows the last round. It has no clipper. Throws
  // std::invalid_argument for sizes that do not fit.
  LinUcb(BanditSettings settings, losses::RecordClipper clipper, LinUcbSettings own,
         mechanisms::ContinualSum sum);

  static std::size_t sum_dimension(std::uint64_t arms, std::size_t dimension) noexcept;

  std::size_t sources() const noexcept override { return 1; }
  random::Source& source(std::size_t) noexcept override { return sum_.source(); }
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }
  const LinUcbSettings& settings() const noexcept { return own_; }

  // V^-1 u of all arms, arms() rows. It depends only on released sums and may be published. Throws
  // RoundOrderError while another thread runs the learner.
  void coefficients(std::span<double> out) const;
  // The last release of the sum, sum().dimension() entries; zeros before. It may be published.
  void released(std::span<double> out) const;

  // The vector that a record adds to the sum if `arm` was chosen, sum().dimension() entries. Audits
  // compare it between neighbouring streams. It reads private data and is not a release.
  void leaf(std::uint64_t arm, Context context, double reward, std::span<double> out) const;

 protected:
  std::uint64_t choose(Context context) override { return advise_among(context, {}); }
  std::uint64_t advise_among(Context context, Mask allowed) override;
  void learn(std::uint64_t arm, Context context, double reward) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  void statistics(Context context, double reward, std::span<double> to) const;
  void estimate();
  void factor(std::uint64_t arm);
  void solve(std::uint64_t arm);
  void widen();
  bool forgets() const noexcept { return own_.kept < 1.0; }
  std::uint64_t releases_after(std::uint64_t rounds) const noexcept;

  LinUcbSettings own_;
  mechanisms::ContinualSum sum_;
  std::size_t entries_;  // entries of one arm
  double width_ = 0.0;
  std::vector<double> leaf_;      // sum of the current batch, all arms
  std::vector<double> rest_;      // compensation of its rounding errors
  std::vector<double> released_;  // all arms; with forgetting, damped sums
  std::vector<double> total_;     // the last release
  std::vector<double> before_;    // the release before
  std::vector<double> row_;       // statistics of one record
  std::vector<double> coefficients_;
  std::vector<double> white_;
  std::vector<oco::CholeskyFactor> factors_;
};

}  // namespace dpoco::bandits
