#pragma once

#include <cstdint>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

// Exact draws from N(mean, scale^2 I) on any body. If TruncatedGaussian has no special method (l_p
// balls, general polytopes), draws from the law on a ball or box around the body until a draw is
// inside.
class FlatSampler {
 public:
  explicit FlatSampler(const domains::Body& body);

  // Makes at most `most` >= 1 proposals and returns their number. `out` is the last one; `inside`
  // says whether it is a valid draw.
  std::uint64_t sample(random::Source& source, const Vector& mean, double scale, Vector& out,
                       std::uint64_t most, bool& inside);

  // The share of proposals that are inside, from a fixed number of draws; 1 without drawing if all
  // are.
  double pilot_share(random::Source& source, const Vector& mean, double scale, Vector& scratch);

 private:
  domains::Body body_;
  bool direct_;
  Vector shift_;  // centre of the enclosing ball or box
  TruncatedGaussian law_;
  Vector moved_;
};

// Rejection under a tangent paraboloid. For x0 in the body and C with 0 <= C <= Hessian(F) there,
//   F(u) >= F(x0) + <F'(x0), u - x0> + (u - x0)'C(u - x0)/2   for u in the body.
// So the Gaussian with precision beta (lam I + C) that belongs to the right side, restricted to the
// body, dominates the Gibbs law. A proposal is kept with probability exp(-beta (left - right)). C
// is either h I, for which an exact sampler draws the Gaussian on the body, or the whole matrix,
// whose draws outside the body are rejected. Both are exact for every x0.
class Envelope {
 public:
  Envelope(domains::Body body, double inverse_temperature, double regularization);

  // Uses x0 = at, in the body. `hessian` is that of F at x0 and is only used for the prediction. C
  // is a multiple of the identity if `flat`.
  void build(losses::LossSum& sum, const Vector& at, const Matrix& hessian, bool flat);

  // Uses C = 0 and any affine minorant in place of the tangent.
  void build(const Minorant& below);

  // Returns whether C is the whole matrix. Its acceptance rate has no proved bound.
  bool whole() const noexcept { return whole_; }

  // The share of draws of the proposal's own law that are inside the body: see FlatSampler.
  double pilot_share(random::Source& source, Vector& scratch) {
    return whole_ ? 1.0 : flat_.pilot_share(source, mean_, scale_, scratch);
  }

  // The logarithm of the predicted acceptance: prod sqrt((lam + eigenvalues of C) / (lam +
  // eigenvalues of the hessian)), and for the whole matrix also a crude estimate of its Gaussian's
  // share inside the body.
  double log_acceptance() const noexcept { return log_acceptance_; }

  // Makes at most `most` >= 1 proposals and returns their number. `out` is the last one; `accepted`
  // says whether it is a valid draw.
  std::uint64_t sample(random::Source& source, losses::LossSum& sum, Vector& out,
                       std::uint64_t most, bool& accepted);

 private:
  double log_inside(const Vector& at);
  double excess(losses::LossSum& sum, const Vector& u);

  domains::Body body_;
  FlatSampler flat_;
  double beta_;
  double lam_;
  bool whole_ = false;      // C is the matrix
  double curvature_ = 0.0;  // h
  double scale_ = 1.0;
  double log_acceptance_ = 0.0;
  Vector origin_;        // x0
  Vector slope_;         // F'(x0)
  double height_ = 0.0;  // F(x0)
  Vector mean_;
  Matrix least_;  // C
  Matrix precision_;
  Cholesky factor_;  // of lam I + C
  Cholesky target_;  // of lam I + hessian
  Eigenvalues eigen_;
  Vector offset_;
  Vector scratch_;
};

// log det of a factored matrix.
double log_determinant(const Cholesky& factor);

}  // namespace dpoco::samplers
