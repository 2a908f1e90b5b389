#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/switch_rule.hpp"
#include "fields.hpp"

namespace dpoco::bindings {

// Engines are built from descriptions (python/dpoco/privacy/mechanisms): every kind is read here,
// under the names that its fields have in Python and in JSON. A reader that leaves out a field
// fails: the description would state what nothing enforces.

// key and stream: the random stream that the engine owns.
std::unique_ptr<random::Source> read_claim(const py::object& claim);

// batch, growth.
Batches read_batches(Fields& from);

// A clipped_vector, or the features of what is made of vectors: what brings them into their bounds.
losses::RecordClipper read_vector(Fields& summand);
losses::RecordClipper read_features(Fields& summand);

// A clipped_vector, which has no slope, or a glm_gradient.
struct Leaf {
  losses::RecordClipper clipper;
  double slope = 0.0;
};
Leaf read_leaf(Fields& summand);

// A gaussian_sum without its summand. A sum that is never released has an engine of one round.
struct GaussianSum {
  mechanisms::SumSettings settings;
  Batches batches;
};
GaussianSum read_gaussian_sum(Fields& from);

// A whole gaussian_sum; `read_summand` reads the fields of its summand and returns the rest of what
// an engine needs.
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

// A coupled_draws; `read_draw` reads the law of a fresh decision. How a decision outlives a block
// has the numbers that its kind is about, and zeros.
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
