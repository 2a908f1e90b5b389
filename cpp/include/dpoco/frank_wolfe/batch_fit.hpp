#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/domains/domain.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::frank_wolfe {

// The records of a data set brought within their public bounds once and for all: the caller's
// memory is read once. A record that is not finite is a zero record.
class BatchRecords {
 public:
  // derivative_bound: |dl/dz| <= this, enforced. The clipped derivative is still monotone and as
  // smooth, so the loss stays convex.
  BatchRecords(const losses::RecordClipper& clipper, losses::GlmLoss loss, double derivative_bound,
               std::uint64_t count, const double* features, const double* labels);

  std::uint64_t count() const noexcept { return labels_.size(); }
  std::size_t dimension() const noexcept { return dimension_; }
  const double* row(std::uint64_t i) const noexcept { return rows_.data() + i * dimension_; }
  double label(std::uint64_t i) const noexcept { return labels_[i]; }
  const losses::RecordClipper& clipper() const noexcept { return clipper_; }
  const losses::GlmLoss& loss() const noexcept { return loss_; }
  // The gradient of record i at theta is this number times row(i).
  double derivative(std::uint64_t i, const double* theta) const noexcept;

 private:
  losses::RecordClipper clipper_;
  std::size_t dimension_;
  losses::GlmLoss loss_;
  double bound_;
  std::vector<double> rows_;
  std::vector<double> labels_;
};

// What every fit of a batch baseline starts from.
struct BatchProblem {
  std::shared_ptr<const domains::Domain> domain;
  BatchRecords records;
  std::unique_ptr<random::Source> source;
  std::vector<double> start;  // public, in the domain
};

// What the noise of a fit is for, read from the objects that draw it: `releases` means (or vectors,
// or averages) of the same `records`, and `copies` of all of that on records of their own.
struct HeldNoise {
  std::uint64_t records = 0;
  double scale = 0.0;
  double grid = 0.0;
  std::uint64_t releases = 1;
  std::uint64_t copies = 1;
  double step_size = 0.0;  // of walks
};

// One private fit of a model to a data set, in units of one gradient each, so that a caller can
// stop between them. Nothing is released before the last unit. O(dimension) per unit, no
// allocation.
class BatchFit {
 public:
  explicit BatchFit(BatchProblem problem);
  virtual ~BatchFit() = default;
  BatchFit(const BatchFit&) = delete;
  BatchFit& operator=(const BatchFit&) = delete;

  std::size_t dimension() const noexcept { return theta_.size(); }
  std::uint64_t units() const noexcept { return units_; }
  std::uint64_t completed() const noexcept { return completed_; }
  // Up to `count` units more. Throws StateError in a forked child.
  void advance(std::uint64_t count);
  // Entries of what is released, and of the result: a model's, unless a subclass says otherwise.
  virtual std::size_t released() const noexcept { return dimension(); }
  // The model, or what it is computed from. Throws RoundOrderError before the last unit.
  void result(double* out) const;
  // What the fit adds noise to in its k-th release (k-th record for stochastic gradients), if the
  // releases so far lead to `at` (and `previous`): what an audit compares between neighbouring data
  // sets. Reads private data; not a release.
  virtual void nonprivate_release(std::uint64_t k, const double* at, const double* previous,
                                  double* out) const = 0;
  // One for each phase; `sampled`: vectors of records drawn with replacement; `weight`: of the
  // vectors beside second moments, 0 for gradients.
  virtual std::vector<HeldNoise> held() const = 0;
  virtual bool sampled() const noexcept { return false; }
  virtual double weight() const noexcept { return 0.0; }
  const BatchRecords& records() const noexcept { return records_; }
  const random::Source& source() const noexcept { return *source_; }

 protected:
  virtual void step() = 0;
  virtual void finish(double* out) const;

  std::shared_ptr<const domains::Domain> domain_;
  BatchRecords records_;
  std::unique_ptr<random::Source> source_;
  std::vector<double> theta_;
  std::uint64_t units_ = 0;

 private:
  std::uint64_t completed_ = 0;
};

// A grid of noise, a power of two or 0, is what vectors are rounded to before integers of the law
// of rounded Gaussian noise are added to them: docs/privacy/lattice.md.

// The average of theta_2, theta_3, ... with theta_{t+1} = project(theta_t - step_size (g_t + Z_t)),
// g_t the gradient of a record drawn uniformly with replacement, Z_t ~ N(0, noise_scale^2 I).
struct NoisySgdSettings {
  std::uint64_t steps = 0;
  double step_size = 0.0;
  double noise_scale = 0.0;
  double grid = 0.0;
};
std::unique_ptr<BatchFit> make_noisy_sgd(BatchProblem problem, NoisySgdSettings settings);

// Stochastic gradients on disjoint slices of the data; each phase releases its average iterate with
// noise and the next starts there.
struct SgdPhase {
  std::uint64_t records = 0;
  double step_size = 0.0;  // at most 2 / smoothness, or the steps expand
  double noise_scale = 0.0;
  double grid = 0.0;
};
std::unique_ptr<BatchFit> make_phased_sgd(BatchProblem problem, std::vector<SgdPhase> phases);

// Frank-Wolfe with a recursive gradient estimate: the mean gradient of a large first batch, then
// mean differences of gradients between consecutive points on disjoint small batches.
struct NoisyFrankWolfeSettings {
  std::uint64_t first_batch = 0;
  std::uint64_t batch = 0;
  std::uint64_t steps = 0;
  double step_size = 0.0;         // in (0, 1]
  double difference_bound = 0.0;  // |difference of a record's derivatives| <= this, enforced
  double first_scale = 0.0;
  double later_scale = 0.0;
  double first_grid = 0.0;  // of the batch's sum, as the next
  double later_grid = 0.0;
};
std::unique_ptr<BatchFit> make_noisy_frank_wolfe(BatchProblem problem,
                                                 NoisyFrankWolfeSettings settings);

// The sum of (x x', weight y x) over all records, with N(0, noise_scale^2) on each entry: upper
// triangle, off-diagonal entries times sqrt(2), then the vector.
struct StatisticsSettings {
  std::uint64_t records = 0;  // all of them
  std::uint64_t size = 0;     // entries of the sum
  double weight = 0.0;
  double noise_scale = 0.0;
};
std::unique_ptr<BatchFit> make_sufficient_statistics(BatchProblem problem,
                                                     StatisticsSettings settings);

// Mirror descent with h(theta) = |theta - anchor|_p^2 / (2 (p - 1)) in a ball around the last
// phase's model, on disjoint slices; each step takes the noisy mean gradient of the slice.
struct MirrorPhase {
  std::uint64_t records = 0;
  double regularization = 0.0;  // lambda of the term lambda h added to the loss
  double radius = 0.0;          // of the ball, in l_p
  double noise_scale = 0.0;     // of one step
  double grid = 0.0;            // of the slice's sum
};
std::unique_ptr<BatchFit> make_localized_mirror_descent(BatchProblem problem, double p,
                                                        double domain_radius, std::uint64_t steps,
                                                        std::vector<MirrorPhase> phases);

}  // namespace dpoco::frank_wolfe
