#pragma once

#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/oco/newton.hpp"

namespace dpoco::oco {

// The law of a coupled leader's point, and the current point. The noise has independent coordinates
// N(0, variance), on which the law's density at the point depends. The learner owns the sum. All
// vectors have sum.dimension() entries.
class LeaderLaw {
 public:
  virtual ~LeaderLaw() = default;

  const std::vector<double>& point() const noexcept { return at_.u; }

  // Moves to the point of noise z under the sum's losses. `density` says whether the density there
  // will be needed. Throws StateError if there is no such point or it cannot be found.
  virtual void draw(std::span<const double> z, double variance, bool density) = 0;
  // |grad J + z| of the last draw.
  virtual double residual() const noexcept { return 0.0; }

  // Evaluates the sum's staged loss at the point. Returns false if it cannot be evaluated: then it
  // counts as the zero loss and must not be committed.
  virtual bool stage(bool density) = 0;
  // Replaces the staged loss by the zero loss.
  virtual void stage_zero() = 0;
  // ln(mu'/mu) of the evaluated loss at the point, for noise of variance `before` without the loss
  // and `after` with it. `committed` says whether the sum already contains the loss.
  virtual double log_ratio(double before, double after, bool committed) = 0;
  // Adds the evaluated loss to the law; the point stays. `density` is as in draw.
  virtual void absorb(bool density) = 0;

  // Moves to u and returns ln mu there under the sum's losses.
  virtual double log_density(std::span<const double> u, double variance) = 0;
  // Moves to u and prepares the density.
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
