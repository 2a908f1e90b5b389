#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/local/hedge.hpp"
#include "dpoco/local/posterior.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::local {

// Server and devices in one process, with one report per round, for experiments. The noise of all
// devices comes from one source.

// Inputs of a simulation. Spans do not own their memory. Comments say which may be empty.
struct Play {
  std::span<const double> tables;  // contexts x K x M
  std::size_t contexts;
  std::size_t hypotheses;
  std::size_t labels;
  std::span<const std::int64_t> context;  // of each round; empty: the first
  std::span<const std::int64_t> label;    // of each round; out of range: no event
  std::uint64_t first;                    // number of the first round, from 1
  double mixing;                          // mixing of predictions; negative: 1 / (t + 1) in round t
  std::span<const double> truth;          // contexts x M; empty: no risk
  std::int64_t named;                     // hypothesis whose confidence is recorded; negative: none
  double confidence;                      // beta
  std::span<const std::uint64_t>
      checkpoints;  // ascending round numbers after which weights are stored
};

// Results, in the caller's buffers.
struct Measured {
  std::span<double> kl;          // per round, if there is a truth
  std::span<double> tv;          // total variation, half the l1 distance
  std::span<double> weights;     // K per checkpoint
  std::uint64_t misses = 0;      // rounds after which the named hypothesis is outside the set
  std::uint64_t first_miss = 0;  // 0: none
  std::uint64_t subsets = 0;     // rounds that asked for a subset
};

enum class Channel { bits, subset, automatic };

struct PosteriorPlan {
  std::uint64_t seed;
  Family family;
  Channel channel;
  bool interactive;
  double epsilon;
  std::size_t bits;
  std::size_t subset_size;  // 0: subsets are not among the choices
  double response_gain;     // excess likelihood of randomized response, as sampled
  double subset_gain;       // and of subsets of subset_size
  double contraction;       // c of randomized response
  double signal;            // kappa of subsets
};

struct HedgePlan {
  std::uint64_t seed;
  double epsilon;
  double mixing;  // of the losses
  bool exact_range;
  double half_range;  // used otherwise
  bool adaptive_rate;
};

// Throws std::invalid_argument for impossible plans, before any draw.
void simulate(const Play& play, const PosteriorPlan& plan, Posterior& learner,
              random::Source& source, Measured& out);
void simulate(const Play& play, const HedgePlan& plan, Hedge& learner, random::Source& source,
              Measured& out);

}  // namespace dpoco::local
