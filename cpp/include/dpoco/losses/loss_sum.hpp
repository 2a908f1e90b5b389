#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/domains/body.hpp"
#include "dpoco/losses/glm.hpp"
#include "dpoco/losses/record.hpp"

namespace dpoco::losses {

// Bounds of the l_2 Lipschitz constant and the curvature of each loss over the body. A sum enforces
// them. 0 if no bound is known.
struct LossBounds {
  double lipschitz = 0.0;
  double smoothness = 0.0;
};

// The running sum F = l_1 + ... + l_t of a stream's losses, and the loss of the current round, all
// in a body's coordinates u. A round stages its loss, which brings the record within its public
// bounds (a malformed record has the zero loss; whether this happened is private), evaluates the
// staged loss, and commits it to the sum. Values include the losses' additive constants. A sum
// belongs to one thread at a time: methods that are not const use the sum's memory.
class LossSum {
 public:
  enum class Kind : std::uint8_t { linear, quadratic, glm, custom };

  virtual ~LossSum() = default;

  Kind kind() const noexcept { return kind_; }
  Index dimension() const noexcept { return body_.dimension(); }
  const domains::Body& body() const noexcept { return body_; }
  // Rank of one loss's Hessian: 0, 1 or dimension().
  Index rank() const noexcept { return rank_; }
  const LossBounds& bounds() const noexcept { return bounds_; }
  // Returns whether no loss other than the zero loss has been committed. Then F = 0.
  virtual bool empty() const noexcept = 0;

  // The sum at u. gradient and hessian (row-major, symmetric, full) are overwritten.
  virtual double value(std::span<const double> u) = 0;
  virtual void gradient(std::span<const double> u, std::span<double> out) = 0;
  virtual void hessian(std::span<const double> u, std::span<double> out) = 0;
  // Computes both, with the same bits.
  virtual void gradient_and_hessian(std::span<const double> u, std::span<double> slope,
                                    std::span<double> bend) {
    gradient(u, slope);
    hessian(u, bend);
  }
  // Returns whether every loss has a Hessian. If not, hessian() leaves out losses that have none.
  virtual bool has_hessian() const noexcept { return true; }
  // Returns whether reading the losses from memory takes most of the time, so that gradient and
  // Hessian together cost little more than the gradient.
  virtual bool beyond_cache() const noexcept { return false; }
  // Adds to `out` a matrix M with Hessian(F)(u) >= M for all u in the body: the proved lower bound
  // of the curvature. Zero for custom losses.
  virtual void add_least_hessian(std::span<double> out) const = 0;

  // The sum on the line u + t step. prepare_line fixes the line; then line_value and line_slope
  // (the derivative in t) cost O(distinct rows) for generalised linear losses.
  virtual void prepare_line(std::span<const double> u, std::span<const double> step) = 0;
  virtual double line_value(double t) = 0;
  virtual double line_slope(double t) = 0;

  // Stage the round's loss. Each record is read once. Default: std::invalid_argument.
  virtual void stage_vector(std::span<const double> gradient);                // linear
  virtual void stage_record(std::span<const double> features, double label);  // generalised linear
  virtual void stage_matrix(std::span<const double> matrix,
                            std::span<const double> vector);  // x'Ax/2 - b'x

  // The staged loss at u.
  virtual double staged_value(std::span<const double> u) const = 0;
  virtual void staged_gradient(std::span<const double> u, std::span<double> out) const = 0;
  // For rank() <= 1: the Hessian is scale * direction direction'; returns scale.
  virtual double staged_curvature(std::span<const double> u) const = 0;
  virtual std::span<const double> staged_direction() const = 0;
  // For rank() > 1, n x n row-major, overwritten.
  virtual void staged_hessian(std::span<const double> u, std::span<double> out) const = 0;
  // A lower bound of the staged loss over the body, from this loss alone. Exact (the minimum) for
  // linear and generalised linear losses on ball, box and simplex.
  virtual double staged_minimum() = 0;

  // Adds the staged loss to the sum. It stays staged until the next one is staged.
  virtual void commit() = 0;

  virtual void write(Archive& archive) const = 0;
  virtual void read(ArchiveReader& archive) = 0;  // into a new sum

 protected:
  LossSum(Kind kind, domains::Body body, Index rank, LossBounds bounds = {})
      : kind_(kind), body_(std::move(body)), rank_(rank), bounds_(bounds) {}

 private:
  Kind kind_;
  domains::Body body_;
  Index rank_;
  LossBounds bounds_;
};

// The bounds of a generalised linear loss of clipped records.
LossBounds glm_bounds(const domains::Body& body, const GlmLoss& loss, const RecordClipper& clipper);

// f(x) = <g, x>, ||g|| clipped. O(d) memory.
std::unique_ptr<LossSum> make_linear_sum(domains::Body body, RecordClipper clipper);

// f(x) = l(<v, x>, y) with v and y clipped. The squared loss stores its sufficient statistics,
// O(d^2). The other losses store the rows, each distinct (v, y) once with its count: O(distinct
// rows x d).
std::unique_ptr<LossSum> make_glm_sum(domains::Body body, GlmLoss loss, RecordClipper clipper);

// The same for any generalised linear loss, with stored rows.
std::unique_ptr<LossSum> make_glm_rows(domains::Body body, GlmLoss loss, RecordClipper clipper);

// f(x) = x'Ax/2 - b'x with A symmetrised and positive semidefinite (else the zero loss), scaled
// down until |A| <= smoothness and |A (x - c)| + |Ac - b| <= lipschitz for |x - c| <= radius (an
// infinite radius gives no such bound). O(d^2) memory, O(d^3) per round.
std::unique_ptr<LossSum> make_quadratic_sum(domains::Body body, double lipschitz, double smoothness,
                                            double radius);

}  // namespace dpoco::losses
