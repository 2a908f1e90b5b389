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

// Which chain draws. `automatic` uses one only where exact draws would be slow; the others always.
enum class GibbsChain : std::uint8_t { automatic, hit_and_run, langevin, proximal };

struct GibbsSettings {
  double inverse_temperature = 1.0;  // beta > 0
  double regularization = 1.0;       // lam > 0
  bool exact_only = true;            // false: MCMC where the exact sampler would be slow
  double tolerance = 1e-12;          // allowed total variation error of one MCMC draw, in (0, 1)
  // Unless exact_only: a chain runs if the predicted acceptance is below this. Above 1: always.
  double chain_below = 1e-4;
  // The dimension above which the chain may be Metropolis-adjusted Langevin.
  Index langevin_above = 50;
  GibbsChain chain = GibbsChain::automatic;
  double lipschitz = 0.0;  // of F, for the proximal sampler, whose error is proved
  // With exact_only: the number of planes under kinks, after which they are used whatever their
  // error, and the number of proposals for one draw, after which the last one counts. If a is a
  // public lower bound of the acceptance, 750/a proposals change the law by less than 1e-325.
  std::uint64_t most_planes = 2000;
  std::uint64_t most_proposals = std::numeric_limits<std::uint64_t>::max();
};

enum class GibbsMethod : std::uint8_t {
  truncated_gaussian,  // linear sum
  gaussian,            // quadratic sum on the space
  line,                // one dimension: a single exact draw
  envelope,            // exact rejection
  hit_and_run,         // Markov chains: up to the allowed total variation
  langevin,
  proximal,
};

// The state from which a chain continues.
struct ChainState {
  std::vector<double> position;  // empty before the first step
  double step_size = 1.0;        // of Langevin
};

// How the last draw was made. Depends on data beyond the draw itself, so it must not be released.
struct GibbsReport {
  GibbsMethod method = GibbsMethod::truncated_gaussian;
  double predicted_acceptance = 1.0;  // of the envelope
  std::uint64_t proposals = 0;        // of the envelope or the chain, over the draws of one call
  std::uint64_t accepted = 0;
};

// Draws from the Gibbs law with density proportional to exp(-beta (F(u) + lam ||u||^2 / 2)) on a
// body. Linear F, and quadratic F on the whole space, have a closed form. In one dimension it uses
// adaptive rejection. Otherwise it uses rejection from the Gaussian of a tangent plane plus proved
// curvature or, unless exact_only, a Markov chain in whitened coordinates if the predicted
// acceptance is below `chain_below`.
//
// F may have kinks. If the Newton search for the mode finds one, or there is no Hessian, cutting
// planes find the mode from values and subgradients, and a combination of tangents replaces the
// tangent.
//
// All methods except the chains are exact in real arithmetic. Running time is random and its law
// depends on F, so timing is a side channel. Public numbers bound the work of a draw: if chains are
// allowed, one takes over after a fixed number of rejected proposals, within the allowed total
// variation. docs/privacy/gibbs_sampling.md has the proofs and the assumptions of the chains.
class GibbsSampler {
 public:
  // Throws std::invalid_argument unless beta, lam > 0 are finite and the tolerance is in (0, 1).
  GibbsSampler(domains::Body body, GibbsSettings settings);
  ~GibbsSampler();
  GibbsSampler(GibbsSampler&&) noexcept;

  // Writes a new draw to u. Keeps only scratch memory from earlier draws. Takes one mode (Newton
  // steps of O(rows n^2 + n^3)), then O(rows n) per proposal or step of a chain.
  void sample(random::Source& source, losses::LossSum& sum, std::span<double> u);

  // Writes independent draws, one per row of `out`. Computes the mode once.
  void sample_many(random::Source& source, losses::LossSum& sum, std::span<double> out);

  // Writes states of the chosen chain, one per row of `out`, `steps` apart, starting from `state`.
  void walk(random::Source& source, losses::LossSum& sum, std::uint64_t steps, ChainState& state,
            std::span<double> out);

  // Computes the mode over the body to high accuracy, for tests and non-private use. Returns the
  // optimality residual |u - P(u - L^-1 gradient)| L relative to the size of the gradient of F,
  // with L the trace of the Hessian, below 1e-8. If F has a kink there, returns an upper bound of
  // the distance of its value from the minimum.
  double mode(losses::LossSum& sum, std::span<double> u);

  const GibbsReport& nonprivate_report() const noexcept;

  // The number of steps of one draw by a chain, a function of public numbers only.
  static std::uint64_t chosen_length(const domains::Body& body, const GibbsSettings& settings);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// The number of steps of a proximal chain to a total variation of `tolerance`. `lipschitz` is that
// of F.
double proximal_steps(Index dimension, double radius, double inverse_temperature,
                      double regularization, double lipschitz, double tolerance);

}  // namespace dpoco::samplers
