#pragma once

#include <cstdint>

#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"
#include "mode.hpp"

namespace dpoco::samplers {

// Exact draws from N(mean, scale^2 I) on any body: where TruncatedGaussian has no special method
// (l_p balls, general polytopes), from its law on a ball or box around the body, until one falls
// inside.
class FlatSampler {
 public:
  explicit FlatSampler(const domains::Body& body);

  // Makes at most `most` >= 1 proposals and returns their number; `out` is the last one, and
  // whether it is a draw is `inside`.
  std::uint64_t sample(random::Source& source, const Vector& mean, double scale, Vector& out,
                       std::uint64_t most, bool& inside);

  // The share of proposals inside, from a fixed number of draws; 1 without drawing where all are.
  double pilot_share(random::Source& source, const Vector& mean, double scale, Vector& scratch);

 private:
  domains::Body body_;
  bool direct_;
  Vector shift_;  // the centre of what is around the body
  TruncatedGaussian law_;
  Vector moved_;
};

// Rejection under a tangent paraboloid: for x0 in the body and C with 0 <= C <= Hessian(F) there,
//   F(u) >= F(x0) + <F'(x0), u - x0> + (u - x0)'C(u - x0)/2   for u in the body,
// so the Gaussian with precision beta (lam I + C) that belongs to the right side, cut to the body,
// dominates the Gibbs law; a proposal is kept with probability exp(-beta (left - right)).
// Two choices of C: h I, whose Gaussian is cut to the body by an exact sampler, and the whole
// matrix, whose draws are thrown away outside the body. Both are exact, whatever x0.
class Envelope {
 public:
  Envelope(domains::Body body, double inverse_temperature, double regularization);

  // x0 = at, in the body; `hessian` of F there serves the prediction only. C is a multiple of the
  // identity if `flat`.
  void build(losses::LossSum& sum, const Vector& at, const Matrix& hessian, bool flat);

  // C = 0, and any affine minorant in the place of the tangent.
  void build(const Minorant& below);

  // Whether C is the matrix, of whose acceptance nothing is proved.
  bool whole() const noexcept { return whole_; }

  // Share of draws of the proposal's own law that fall into the body: see FlatSampler.
  double pilot_share(random::Source& source, Vector& scratch) {
    return whole_ ? 1.0 : flat_.pilot_share(source, mean_, scale_, scratch);
  }

  // Logarithm of the predicted acceptance: prod sqrt((lam + C's) / (lam + hessian's eigenvalues)),
  // and for the matrix the share of its Gaussian inside the body, crudely.
  double log_acceptance() const noexcept { return log_acceptance_; }

  // Makes at most `most` >= 1 proposals and returns their number; `out` is the last one, and
  // whether it is a draw is `accepted`.
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
