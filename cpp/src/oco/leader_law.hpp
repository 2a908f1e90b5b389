#pragma once

#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/oco/newton.hpp"

namespace dpoco::oco {

// The law of a coupled leader's point, and the point it is at. Noise has independent coordinates
// N(0, variance); a law's density at the point depends on it. The sum is the learner's; all vectors
// have sum.dimension() entries.
class LeaderLaw {
 public:
  virtual ~LeaderLaw() = default;

  const std::vector<double>& point() const noexcept { return at_.u; }

  // Moves to the point of noise z under the sum's losses. `density`: whether the density there will
  // be asked for. Throws StateError if there is no such point or it cannot be found.
  virtual void draw(std::span<const double> z, double variance, bool density) = 0;
  // |grad J + z| of the last draw.
  virtual double residual() const noexcept { return 0.0; }

  // Evaluates the sum's staged loss at the point. False if it cannot be evaluated: then it counts
  // as the zero loss in what follows and must not be committed.
  virtual bool stage(bool density) = 0;
  // The zero loss in the place of the staged one.
  virtual void stage_zero() = 0;
  // ln(mu'/mu) of the evaluated loss at the point, before and after which the noise has these
  // variances. `committed`: whether the sum already holds the loss.
  virtual double log_ratio(double before, double after, bool committed) = 0;
  // The evaluated loss enters the law, the point stays. `density`: see draw.
  virtual void absorb(bool density) = 0;

  // ln mu at u under the sum's losses: moves there.
  virtual double log_density(std::span<const double> u, double variance) = 0;
  // Moves to u, with density.
  virtual void go(std::span<const double> u) = 0;

  virtual void write(Archive& archive) const;
  virtual void read(ArchiveReader& archive);  // throws StateError

  virtual std::unique_ptr<LeaderLaw> clone() const = 0;

 protected:
  explicit LeaderLaw(losses::LossSum& sum);

  losses::LossSum& sum_;
  std::size_t n_;
  LeaderPoint at_;
  std::vector<double> gradient_;  // of J at the point
  std::vector<double> staged_;    // gradient of the evaluated loss there
};

// For linear losses: y = S + Z for the sum S of their gradients.
std::unique_ptr<LeaderLaw> make_shifted_gaussian(losses::LossSum& sum);

// For all others: the minimiser of J + <z, .>.
std::unique_ptr<LeaderLaw> make_leader_law(losses::LossSum& sum, Regularizer regularizer);

}  // namespace dpoco::oco
