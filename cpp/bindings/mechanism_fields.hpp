#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "fields.hpp"

namespace dpoco::bindings {

// Engines are built from descriptions (python/dpoco/privacy/mechanisms). This file reads every
// kind, under the names that its fields have in Python and in JSON. A reader that leaves out a
// field fails, because the description would state a bound that is not enforced.

// key and stream: the random stream that the engine owns.
std::unique_ptr<random::Source> read_claim(const py::object& claim);

// batch, growth.
Batches read_batches(Fields& from);

// Reads a clipped_vector, or the features of a summand of vectors, and returns the clipper that
// enforces its bounds.
losses::RecordClipper read_vector(Fields& summand);
losses::RecordClipper read_features(Fields& summand);

// A clipped_vector, which has no slope, or a glm_gradient.
struct Leaf {
  losses::RecordClipper clipper;
  double slope = 0.0;
};
Leaf read_leaf(Fields& summand);

// A gaussian_sum without its summand. For a sum that is never released, the engine has one round.
struct GaussianSum {
  mechanisms::SumSettings settings;
  Batches batches;
};
GaussianSum read_gaussian_sum(Fields& from);

// Reads a whole gaussian_sum. `read_summand` reads the fields of its summand and returns the other
// parts that an engine needs.
template <class Read>
auto read_gaussian_sum(const py::object& description, Read read_summand) {
  Fields from(description, "gaussian_sum");
  from.expect_kind("gaussian_sum");
  Fields summand = from.open("summand", "the summand of gaussian_sum");
  GaussianSum sum = read_gaussian_sum(from);
  sum.settings.dimension = std::max<Index>(summand.derive<Index>("size"), 1);
  auto rest = read_whole(std::move(summand), read_summand);
  from.finish();
  return std::pair(std::move(sum), std::move(rest));
}

// experts, rounds, low, high: the sizes of a problem of experts; not a description.
experts::ExpertSettings read_experts(const py::object& problem);

// Returns whether this is the description "nothing". Throws std::invalid_argument if it is,
// although decisions depend on data.
bool read_nothing(const py::object& description, bool independent);

// The parts of a composed description, which states `how` they are composed and by which lemma.
std::vector<py::object> read_parts(const py::object& description, const char* how,
                                   const char* lemma);

// The fields of selections without their scores. All have noise of one scale.
struct Selections {
  mechanisms::SelectionNoise noise;
  double scale;
  std::uint64_t rounds;
};
// Reads a whole selections. `read_scores` reads the fields of its scores.
template <class Read>
Selections read_selections(const py::object& description, Read read_scores) {
  using mechanisms::SelectionNoise;
  Fields from(description, "selections");
  from.expect_kind("selections");
  Fields scores = from.open("scores", "the scores of selections");
  read_scores(scores);
  scores.finish();
  const Selections own{
      .noise = from.read_name<SelectionNoise>("law", {{"exponential", SelectionNoise::exponential},
                                                      {"gumbel", SelectionNoise::gumbel},
                                                      {"laplace", SelectionNoise::laplace}}),
      .scale = from.read<double>("scale"),
      .rounds = from.read<std::uint64_t>("rounds")};
  if (from.read<double>("exponent") != 0.0)
    throw std::invalid_argument("the scale must not change");
  from.finish();
  return own;
}

// Reads a whole threshold_tests. One record moves a query by up to `moved`, and the difference of
// any two queries by as much; 0 if the caller promises the bounds.
mechanisms::AboveThresholdSettings read_threshold_tests(const py::object& description,
                                                        double moved);

// Reads a coupled_draws. `read_draw` reads the law of a fresh decision. Of the numbers that say
// whether a decision outlives a block, those of other kinds are zero.
struct CoupledDraws {
  mechanisms::SwitchSettings rule;
  Index dimension = 0;
  double lipschitz = 0.0;
  double smoothness = 0.0;
  std::string keep;
  double high = 0.0;
  double low = 0.0;
  double span = 0.0;
};
CoupledDraws read_coupled_draws(Fields& from);
template <class Read>
CoupledDraws read_coupled_draws(const py::object& description, Read read_draw) {
  return read_whole({description, "coupled draws"}, [&](Fields& from) {
    from.expect_kind("coupled_draws");
    read_whole(from.open("draw", "the law of a decision"), [&](Fields& draw) {
      read_draw(draw);
      return true;
    });
    return read_coupled_draws(from);
  });
}

}  // namespace dpoco::bindings
