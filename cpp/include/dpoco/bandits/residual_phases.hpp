#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/core/batch_sum.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"

namespace dpoco::bandits {

struct ResidualPhasesSettings {
  Batches phases;
  double weight = 1.0;  // of second moments in the sum
  double mark = 1.0;    // of a bin
  // Of contexts themselves. Given, second moments are each arm's own: contexts of any law.
  std::optional<double> mean;
  mechanisms::BltParameters factor;    // of the sum: one buffer
  double parameter_bound = 1.0;        // of every arm's coefficients, in l2
  std::optional<double> reward_noise;  // bound on |reward - mean|; none: unknown
  std::uint64_t one_hot = 0;  // entries in front of which one is not zero, of one positive value
  std::optional<double> intercept;  // last entry of every context; none: it is no constant
  // Rounds in which half of what is known of an arm is lost; none: arms do not change.
  std::optional<double> half_life;
};

// A linear bandit that learns from clipped residuals in phases. In a phase the policy is fixed. A
// record adds its clipped residual times its context to its arm, its second moments, and a mark to
// the histogram of residuals. The sums of a phase are one push of a continual sum. What follows, a
// Kalman step for every arm, the next clip and the next policy, sees released numbers and public
// draws only: docs/privacy/residual_phases.md. Contexts are in units of their bound in here. Where
// contexts may have any law, second moments are each arm's own, and correct what draws of a normal
// law say.
// A round: O(K d^2). The end of a phase: O(K d^3 + 2000 K d^2). Memory: O((K + 2000) d + K d^2).
class ResidualPhases final : public BanditLearner {
 public:
  static constexpr std::size_t kBins = 10;
  static constexpr std::size_t kDraws = 2000;  // contexts that a policy is judged by

  // The sum has the dimension `sum_dimension`, and a horizon of all phases that end before the last
  // round. Throws std::invalid_argument for sizes or numbers that do not fit.
  ResidualPhases(BanditSettings settings, losses::RecordClipper clipper, ResidualPhasesSettings own,
                 mechanisms::ContinualSum sum);

  // `any`: of contexts of any law.
  static std::size_t sum_dimension(std::uint64_t arms, std::size_t dimension, bool any) noexcept;
  // Standard normal variates that every learner of a dimension uses, kDraws rows: public, the same
  // in every process. They have nothing to do with the noise.
  static std::shared_ptr<const RowMatrix> public_draws(std::size_t dimension);

  std::size_t sources() const noexcept override { return 1; }
  random::Source& source(std::size_t) noexcept override { return sum_.source(); }
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }

  // Released values, which may be published: coefficients of all arms, arms() rows, the sums last
  // released, and where residuals are clipped. Throw RoundOrderError while another thread runs it.
  void coefficients(std::span<double> out) const;
  void last_sums(std::span<double> out) const;
  double clip() const;

  // The vector that a record adds to the sum in this phase if `arm` was chosen: for audits.
  void leaf(std::uint64_t arm, std::span<const double> context, double reward,
            std::span<double> out) const;

 protected:
  std::uint64_t choose(Context context) override;
  std::uint64_t advise(Context context) override;
  // In the first phase: the coin of a round to come, whatever the context.
  std::int64_t due_arm(std::span<const double> promised) const override;
  void learn(std::uint64_t arm, Context context, double reward) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  // A row of C, the strategy of the sum, on what phases added up, one after the other.
  struct Row {
    double fresh;  // of the current phase
    double past;   // of what is kept of earlier ones
    double keep;   // of that, from phase to phase
  };
  struct Constants {
    double width;  // of the policy's optimism, in deviations of the belief
    double first;  // clip, in bounds on rewards
    double clips;  // later on, in expected scales of residuals
  };
  struct Arm {
    Vector coefficients;         // that are played: the belief's mean, within parameter_bound
    RowMatrix covariance;        // of the belief
    RowMatrix kept_slopes = {};  // of the three sums that the belief is computed from
    RowMatrix kept_spreads = {};
    Vector kept_targets = {};
    Vector mean = {};  // of the belief; with contexts of a normal law, what is played
  };

  Constants choose_constants() const;
  template <class Add>
  void add_record(std::uint64_t arm, std::span<const double> context, double reward, Add add) const;
  std::uint64_t coin(std::uint64_t round) const;
  std::uint64_t best(std::span<const double> units) const;
  void close_phase(std::uint64_t length);
  void pool_moments(std::span<const double> sums, double length, const Row& row);
  Vector pooled_mean() const;
  RowMatrix draw_contexts(RowMatrix& moments) const;
  std::vector<RowMatrix> design(double length) const;
  void correct(RowMatrix& moments, std::span<const double> packed, const Row& row) const;
  double mean_spread(const std::vector<RowMatrix>& design, double length) const;
  void update(Arm& arm, const RowMatrix& moments, std::span<const double> sums, double scale,
              const Row& row);
  void forget(double length);
  template <class Visit>
  void visit_state(Visit visit);

  ResidualPhasesSettings own_;
  mechanisms::ContinualSum sum_;
  BatchSum batch_;
  std::uint64_t pushes_ = 0;  // phases that end before the last round
  double reach_;              // of coefficients in units
  double prior_;              // variance of every coefficient at first
  double reward_bound_;
  Constants constants_;
  double clip_;
  std::vector<Arm> arms_;
  Vector kept_moments_;       // of all arms, packed, and means: of earlier phases
  Vector pooled_moments_;     // their weighted sum over phases
  double kept_length_ = 0.0;  // the same of lengths of phases
  double pooled_length_ = 0.0;
  std::vector<double> released_;  // by the sum
  std::vector<double> units_;     // a context
  std::shared_ptr<const RowMatrix> draws_;
};

}  // namespace dpoco::bandits
