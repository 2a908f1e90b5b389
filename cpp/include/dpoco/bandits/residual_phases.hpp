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
  double weight = 1.0;  // weight of second moments in the sum
  double mark = 1.0;    // weight of a record in its bin
  // Weight of the contexts in the sum. If it is given, contexts may have any law, and each arm has
  // its own second moments.
  std::optional<double> mean;
  mechanisms::BltParameters factor;    // strategy of the sum, with one buffer
  double parameter_bound = 1.0;        // bound of every arm's coefficients, in l2
  std::optional<double> reward_noise;  // bound on |reward - mean|; none: unknown
  // Number of leading one-hot entries: one of them has a fixed positive value, the others are 0.
  std::uint64_t one_hot = 0;
  std::optional<double> intercept;  // last entry of every context, if it is constant
  // Rounds after which the knowledge of an arm has half its weight; none if arms do not change.
  std::optional<double> half_life;
};

// A linear bandit that learns from clipped residuals in phases. The policy is fixed during a phase.
// A record adds its clipped residual times its context to the sum of its arm, its second moments,
// and a mark to the histogram of residuals. The sums of a phase are one push of a continual sum.
// The following steps use only released numbers and public draws: a Kalman step for every arm, the
// next clipping bound and the next policy (docs/privacy/residual_phases.md). In this class contexts
// are in units of their bound. If contexts may have any law, each arm has its own second moments,
// which correct the moments predicted by draws of a normal law.
// A round takes O(K d^2), the end of a phase O(K d^3 + 2000 K d^2).
// Memory: O((K + 2000) d + K d^2).
class ResidualPhases final : public BanditLearner {
 public:
  static constexpr std::size_t kBins = 10;
  static constexpr std::size_t kDraws = 2000;  // contexts on which a policy is evaluated

  // The sum must have the dimension `sum_dimension`, and a horizon of all phases that end before
  // the last round. Throws std::invalid_argument for sizes or numbers that do not fit.
  ResidualPhases(BanditSettings settings, losses::RecordClipper clipper, ResidualPhasesSettings own,
                 mechanisms::ContinualSum sum);

  // `any` says whether contexts may have any law.
  static std::size_t sum_dimension(std::uint64_t arms, std::size_t dimension, bool any) noexcept;
  // Standard normal variates that every learner of a dimension uses, kDraws rows. They are public
  // and the same in every process, and independent of the noise.
  static std::shared_ptr<const RowMatrix> public_draws(std::size_t dimension);

  std::size_t sources() const noexcept override { return 1; }
  random::Source& source(std::size_t) noexcept override { return sum_.source(); }
  const mechanisms::ContinualSum& sum() const noexcept { return sum_; }

  // Released values, which may be published: the coefficients of all arms (arms() rows), the last
  // released sums, and the clipping bound of residuals. Throw RoundOrderError while another thread
  // runs the learner.
  void coefficients(std::span<double> out) const;
  void last_sums(std::span<double> out) const;
  double clip() const;

  // The vector that a record adds to the sum in this phase if `arm` was chosen, for audits.
  void leaf(std::uint64_t arm, std::span<const double> context, double reward,
            std::span<double> out) const;

 protected:
  std::uint64_t choose(Context context) override;
  std::uint64_t advise(Context context) override;
  // In the first phase returns the coin of a later round, whatever the context.
  std::int64_t due_arm(std::span<const double> promised) const override;
  void learn(std::uint64_t arm, Context context, double reward) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  // A row of C, the strategy of the sum, applied to the summands of consecutive phases.
  struct Row {
    double fresh;  // factor of the current phase
    double past;   // factor of the kept earlier phases
    double keep;   // factor of the kept phases from phase to phase
  };
  struct Constants {
    double width;  // of the policy's optimism, in standard deviations of the arm's belief
    double first;  // first clipping bound, in bounds of rewards
    double clips;  // later clipping bounds, in expected scales of residuals
  };
  struct Arm {
    Vector coefficients;         // those in use: the mean, projected to parameter_bound
    RowMatrix covariance;        // of the belief about the coefficients
    RowMatrix kept_slopes = {};  // three sums from which mean and covariance are computed
    RowMatrix kept_spreads = {};
    Vector kept_targets = {};
    Vector mean = {};  // of the belief; equals `coefficients` for contexts of a normal law
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
  std::uint64_t pushes_ = 0;  // number of phases that end before the last round
  double reach_;              // bound of coefficients in the units of this class
  double prior_;              // initial variance of every coefficient
  double reward_bound_;
  Constants constants_;
  double clip_;
  std::vector<Arm> arms_;
  Vector kept_moments_;       // packed moments and means of all arms in earlier phases
  Vector pooled_moments_;     // their weighted sum over phases
  double kept_length_ = 0.0;  // the same for the lengths of phases
  double pooled_length_ = 0.0;
  std::vector<double> released_;  // last released sums
  std::vector<double> units_;     // a context in units of its bound
  std::shared_ptr<const RowMatrix> draws_;
};

}  // namespace dpoco::bandits
