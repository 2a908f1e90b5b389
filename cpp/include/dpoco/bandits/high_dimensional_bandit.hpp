#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/frank_wolfe/frank_wolfe.hpp"

namespace dpoco::bandits {

struct HighDimensionalBanditSettings {
  std::uint64_t forced = 0;  // rounds in which each arm is pulled before any choice
  std::uint64_t batch = 1;   // of an arm's clock: estimates change after multiples of it only
  // Known lower bound on how far the best arm's mean reward is ahead: arms that trail in the
  // estimates behind the forced rounds by half of it or more are out. Infinite: none is.
  double gap = std::numeric_limits<double>::infinity();
  bool logistic = false;  // the mean reward is 1 / (1 + exp(-<x, theta>)) instead of <x, theta>
};

// Greedy choice between K private Frank-Wolfe estimates (Han et al., DP-HDB, Algorithm 3, with a
// clock for every arm and zero records for all arms that are not chosen). First each arm in turn is
// pulled `forced` times, by a public schedule: only its own clock runs. Then the arm with the
// highest estimate is chosen, the lowest index on ties, and all clocks run: the arm chosen gets the
// round's record, all others one that adds nothing, so that nobody can tell.
// Data reach the choices through what the arms' learners release alone: docs/privacy/
// high_dimensional_bandit.md. A round: O(K d) at most. Nothing is allocated.
class HighDimensionalBandit final : public BanditLearner {
 public:
  // One model an arm, whose source is stream number `arm` of a key; estimates lie in the domain.
  // The horizon of a model is at least clock(arm, horizon). Throws std::invalid_argument.
  HighDimensionalBandit(BanditSettings settings, losses::RecordClipper clipper,
                        HighDimensionalBanditSettings own,
                        std::shared_ptr<const domains::Domain> domain,
                        std::vector<std::unique_ptr<frank_wolfe::FrankWolfe>> models);

  std::size_t sources() const noexcept override { return models_.size(); }
  random::Source& source(std::size_t index) noexcept override { return models_[index]->source(); }
  const frank_wolfe::FrankWolfe& model(std::uint64_t arm) const { return *models_[arm]; }
  std::uint64_t forced() const noexcept { return own_.forced; }

  // Rounds that an arm's clock shows after `rounds` rounds without delay: a public quantity. With
  // delayed feedback the pulls of a forced round may come in any public order.
  std::uint64_t clock(std::uint64_t arm, std::uint64_t rounds) const noexcept;

  // The current estimates of all arms, arms() rows: released values. Throws RoundOrderError while
  // another thread runs the learner.
  void coefficients(std::span<double> out) const;
  // Those that select arms if there is a gap: the estimates behind the forced rounds, zeros before.
  void frozen(std::span<double> out) const;

 protected:
  std::uint64_t choose(Context context) override;
  // The arm that the estimates prefer, also in forced rounds.
  std::uint64_t advise(Context context) override;
  // The first arm that lacks pulls beyond those promised; if there is none, the one that lacks
  // pulls and has the fewest with those promised, should they never come.
  std::int64_t due_arm(std::span<const double> promised) const override;
  // Forced rounds take only the pulls that were due, `forced` of each arm.
  bool has_room(std::uint64_t arm, bool was_due) const override;
  void learn(std::uint64_t arm, Context context, double reward) override;
  void write_own(Archive& archive) const override;
  void read_own(ArchiveReader& archive) override;

 private:
  bool lacks_pulls(std::uint64_t arm) const;
  void find_next();
  bool is_frozen(std::uint64_t rounds) const noexcept;
  double selection_margin(const std::vector<double>& coefficients, std::uint64_t arm,
                          Context context) const;

  HighDimensionalBanditSettings own_;
  std::shared_ptr<const domains::Domain> domain_;
  std::vector<std::unique_ptr<frank_wolfe::FrankWolfe>> models_;
  std::uint64_t forced_end_ = 0;  // the first round in which there is a choice, at most the horizon
  std::uint64_t next_ = 0;        // the first arm that lacks pulls, while rounds are forced
  std::vector<double> coefficients_;
  std::vector<double> frozen_;
  std::vector<double> early_;  // what the frozen estimates predict
};

}  // namespace dpoco::bandits
