#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/oco/quadratic_leader.hpp"

namespace dpoco::oco {

// A damped sum of a stream's noisy increments. At each push, the past is multiplied by `kept`. All
// vectors have one entry for each push, and the last entry also holds for all later pushes.
// deviations: of the noise of a coordinate of the sum. covariances: of that noise with the noise of
// the next increment.
struct ForgettingView {
  std::vector<double> kept;
  std::vector<double> deviations;
  std::vector<double> covariances;
};

struct ForgettingSettings {
  std::vector<ForgettingView> views;
  std::vector<double> ridges;  // in spectral edges of a view's noise, sqrt(2d) deviations
  // Settings of the choice. The noise of two increments that are j >= 1 pushes apart has the
  // covariance sum_i weights_i rates_i^(j - 1), and for j = 0 `variance`.
  std::size_t reference = 0;  // the ridge of the first view that is compared with the others
  double variance = 0.0;
  std::vector<double> rates;
  std::vector<double> weights;
  std::vector<double> memory = {};  // weight of past comparisons at each push
};

// Ridge regressions on damped sums of noisy quadratic statistics, one for every view and ridge, and
// the choice among them and the domain's centre. A candidate's loss on the next increment is known
// up to noise, without bias if the stream does not react: Stein's identity removes the dependence
// between the candidate and the increment's noise. Everything is post-processing of the noisy
// increments: docs/privacy/forgetting.md.
class ForgettingLeader {
 public:
  // radius: the largest distance of the domain's points from its centre. vector_scale: factor on y
  // x in the increments. Throws std::invalid_argument.
  ForgettingLeader(std::shared_ptr<const domains::Domain> domain, double radius,
                   double vector_scale, ForgettingSettings settings);

  // Takes the next noisy increment (packed matrix, then vector, as QuadraticLeader reads them) and
  // writes the decision. O(views d^3 + candidates d^2 (1 + rates)); for a domain that is not a
  // Euclidean ball, two iterative minimisations per candidate.
  void advance(std::span<const double> increment, std::span<double> decision);

  // The weight of every candidate in the decision: views by ridges, then the centre; a single
  // candidate is used without the centre. They add up to 1.
  std::span<const double> weights() const noexcept { return shares_; }
  // For each candidate, the damped estimate of its loss minus the reference's, and the deviation of
  // the estimate.
  std::span<const double> excess() const noexcept { return excess_; }
  std::span<const double> deviations() const noexcept { return spread_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& archive);  // throws StateError

 private:
  bool chooses() const noexcept { return shares_.size() > 1; }
  std::span<double> comparison(std::size_t candidate, std::size_t mode);
  void compare(std::span<const double> increment);
  void lead(std::size_t view);
  double probed_correction(std::span<const double> decision, double ridge, double step);
  void weigh();

  std::shared_ptr<const domains::Domain> domain_;
  double vector_scale_;
  ForgettingSettings settings_;
  std::size_t d_;
  std::size_t entries_;  // entries of an increment
  std::uint64_t pushes_ = 0;
  QuadraticLeader leader_;
  QuadraticLeader probe_;  // for a slightly moved sum
  std::vector<double> center_;
  std::vector<std::vector<double>> sums_;       // one for every view
  std::vector<std::vector<double>> decisions_;  // one for every candidate
  std::vector<double> corrections_;             // correction of each candidate's next estimate
  std::vector<double> excess_;
  std::vector<double> variances_;
  std::vector<double> spread_;  // square roots of the variances
  std::vector<double> shares_;
  std::vector<double> past_;       // damped comparisons: candidates by rates by entries
  std::vector<double> quadratic_;  // of the reference: packed theta theta', then -2 theta / scale
  std::vector<double> difference_;
  std::vector<double> signs_;
  std::vector<double> moved_;
  std::vector<double> point_;
};

}  // namespace dpoco::oco
