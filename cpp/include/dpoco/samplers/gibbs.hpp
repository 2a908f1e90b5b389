#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"

namespace dpoco::samplers {

// Which chain draws: `automatic` chooses where exact draws would be slow; the others always draw.
enum class GibbsChain : std::uint8_t { automatic, hit_and_run, langevin, proximal };

struct GibbsSettings {
  double inverse_temperature = 1.0;  // beta > 0
  double regularization = 1.0;       // lam > 0
  bool exact_only = true;            // false: MCMC where the exact sampler would be slow
  double tolerance = 1e-12;          // declared total variation of one MCMC draw, in (0, 1)
  // Unless exact_only: the predicted acceptance below which a chain is run. Above 1: always.
  double chain_below = 1e-4;
  // The dimension above which the chain may be Metropolis-adjusted Langevin.
  Index langevin_above = 50;
  GibbsChain chain = GibbsChain::automatic;
  double lipschitz = 0.0;  // of F, for the proximal sampler, whose distance is proved
  // exact_only: planes under kinks, after which they are used whatever they miss, and proposals of
  // one draw, after which the last one counts. From a public lower bound a of the acceptance, 750/a
  // proposals change the law by less than 1e-325.
  std::uint64_t most_planes = 2000;
  std::uint64_t most_proposals = std::numeric_limits<std::uint64_t>::max();
};

enum class GibbsMethod : std::uint8_t {
  truncated_gaussian,  // linear sum
  gaussian,            // quadratic sum on the space
  line,                // one dimension: a single exact draw
  envelope,            // exact rejection
  hit_and_run,         // Markov chains: up to the declared total variation
  langevin,
  proximal,
};

// State from which a chain continues.
struct ChainState {
  std::vector<double> position;  // empty before the first step
  double step_size = 1.0;        // of Langevin
};

// How the last draw came about. Depends on data beyond what the draw tells: not to be released.
struct GibbsReport {
  GibbsMethod method = GibbsMethod::truncated_gaussian;
  double predicted_acceptance = 1.0;  // of the envelope
  std::uint64_t proposals = 0;        // of the envelope or the chain, over the draws of one call
  std::uint64_t accepted = 0;
};

// Draws from the Gibbs law with density proportional to exp(-beta (F(u) + lam ||u||^2 / 2)) on a
// body. Linear F and quadratic F on the space: closed form. One dimension: adaptive rejection.
// Otherwise rejection from the Gaussian of a tangent plane plus proven curvature, or, unless
// exact_only, a Markov chain in whitened coordinates where the predicted acceptance is below
// `chain_below`.
//
// F may have kinks: where the Newton search for the mode finds one, or there is no Hessian, cutting
// planes find it from values and subgradients, and a combination of tangents replaces the tangent.
//
// All but the chains are exact in real arithmetic. Running time is random and its law depends on F,
// so timing is a side channel. The work of a draw is bounded by public numbers: where chains are
// allowed, one takes over after a fixed number of rejected proposals, within the declared total
// variation. docs/privacy/gibbs_sampling.md has the proofs and what the chains assume.
class GibbsSampler {
 public:
  // Throws std::invalid_argument unless beta, lam > 0 are finite and the tolerance is in (0, 1).
  GibbsSampler(domains::Body body, GibbsSettings settings);
  ~GibbsSampler();
  GibbsSampler(GibbsSampler&&) noexcept;

  // Writes a fresh draw to u. Nothing is kept from earlier draws but scratch.
  // One mode (Newton steps of O(rows n^2 + n^3)), then O(rows n) per proposal or step of a chain.
  void sample(random::Source& source, losses::LossSum& sum, std::span<double> u);

  // Independent draws, one per row of `out`; the mode is found once.
  void sample_many(random::Source& source, losses::LossSum& sum, std::span<double> out);

  // States of the settings' chain, one per row of `out`, `steps` apart, from where `state` says.
  void walk(random::Source& source, losses::LossSum& sum, std::uint64_t steps, ChainState& state,
            std::span<double> out);

  // The mode over the body, to high accuracy; for tests and for non-private use. Returns the
  // optimality residual |u - P(u - L^-1 gradient)| L relative to the size of the gradient of F,
  // L the trace of the Hessian, below 1e-8; where F has a kink there, how far its value is from
  // the least one at most.
  double mode(losses::LossSum& sum, std::span<double> u);

  const GibbsReport& nonprivate_report() const noexcept;

  // Steps of one draw by a chain: a function of public numbers only.
  static std::uint64_t chosen_length(const domains::Body& body, const GibbsSettings& settings);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// Steps of a proximal chain to a total variation of `tolerance`; `lipschitz` of F.
double proximal_steps(Index dimension, double radius, double inverse_temperature,
                      double regularization, double lipschitz, double tolerance);

}  // namespace dpoco::samplers
