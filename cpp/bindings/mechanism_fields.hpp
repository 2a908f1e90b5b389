#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "dpoco/core/batch_sum.hpp"
#include "dpoco/losses/record.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
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

}  // namespace dpoco::bindings
