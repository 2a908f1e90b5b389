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
  std::uint64_t forced = 0;  // pulls of each arm before any choice
  std::uint64_t batch = 1;   // rounds of an arm's clock between changes of its estimate
  // A known lower bound of the difference between the best mean reward and the others. Arms that
  // are half of it or more below the best early estimate are excluded. Infinite: none is.
  double gap = std::numeric_limits<double>::infinity();
  bool logistic = false;  // the mean reward is 1 / (1 + exp(-<x, theta>)) instead of <x, theta>
};

// Greedy choice between K private Frank-Wolfe estimates (Han et al., DP-HDB, Algorithm 3, with a
// clock for every arm and zero records for all arms that are not chosen). First each arm in turn is
// pulled `forced` times, by a public schedule, and only its own clock advances. Then the learner
// chooses the arm with the highest estimate, the lowest index on ties, and all clocks advance: the
// chosen arm gets the round's record, and every other arm an empty record, so that no release shows
// the choice. Data influence the choices only through the releases of the arms' models:
// docs/privacy/high_dimensional_bandit.md. A round takes at most O(K d). No allocation.
class HighDimensionalBandit final : public BanditLearner {
 public:
  // One model for each arm, whose source is stream number `arm` of a key. Estimates lie in the
  // domain. The horizon of a model must be at least clock(arm, horizon). Throws
  // std::invalid_argument.
  HighDimensionalBandit(BanditSettings settings, losses::RecordClipper clipper,
                        HighDimensionalBanditSettings own,
                        std::shared_ptr<const domains::Domain> domain,
                        std::vector<std::unique_ptr<frank_wolfe::FrankWolfe>> models);

  std::size_t sources() const noexcept override { return models_.size(); }
  random::Source& source(std::size_t index) noexcept override { return models_[index]->source(); }
  const frank_wolfe::FrankWolfe& model(std::uint64_t arm) const { return *models_[arm]; }
  std::uint64_t forced() const noexcept { return own_.forced; }

  // The rounds on an arm's clock after `rounds` rounds without delay: a public quantity. With
  // delayed feedback the pulls of forced rounds may come in any public order.
  std::uint64_t clock(std::uint64_t arm, std::uint64_t rounds) const noexcept;

  // The current estimates of all arms, arms() rows. These are released values. Throws
  // RoundOrderError while another thread runs the learner.
  void coefficients(std::span<double> out) const;
  // The estimates that exclude arms if there is a gap: those after the forced rounds, zeros before.
  void frozen(std::span<double> out) const;

 protected:
  std::uint64_t choose(Context context) override;
  // Returns the arm that the estimates prefer, also in forced rounds.
  std::uint64_t advise(Context context) override;
  // Returns the first arm that lacks pulls even with those promised. If there is none, returns the
  // arm that lacks pulls and has the fewest including those promised, because these may never come.
  std::int64_t due_arm(std::span<const double> promised) const override;
  // Forced rounds accept only pulls that were due, `forced` of each arm.
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
  std::uint64_t forced_end_ = 0;  // the first round with a choice, at most the horizon
  std::uint64_t next_ = 0;        // the first arm that lacks pulls, while rounds are forced
  std::vector<double> coefficients_;
  std::vector<double> frozen_;
  std::vector<double> early_;  // predictions of the frozen estimates
};

}  // namespace dpoco::bandits
