#include "mechanism_fields.hpp"

#include <optional>
#include <string>
#include <vector>

#include "dpoco/core/statements.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using mechanisms::Factorisation;

std::unique_ptr<random::Source> read_claim(const py::object& claim) {
  return read_whole({claim, "a claim"}, [](Fields& from) {
    const auto key = from.read<py::bytes>("key");
    return make_source(key, from.read<std::uint64_t>("stream"));
  });
}

Batches read_batches(Fields& from) {
  const auto first = from.read<std::uint64_t>("batch");
  const auto growth = from.read<std::optional<std::string>>("growth");
  if (!growth) return {.first = first};
  if (*growth == "root") return {.first = first, .growth = Growth::root};
  if (*growth == "quarter") return {.first = first, .growth = Growth::quarter};
  if (*growth == "three_tenths") return {.first = first, .growth = Growth::three_tenths};
  throw std::invalid_argument("unknown growth of batches");
}

losses::RecordClipper read_vector(Fields& summand) {
  const auto dimension = summand.read<Index>("dimension");
  const auto norm = summand.read<double>("norm");
  const auto bound = summand.read<double>("bound");
  return {dimension, bound, norm, summand.read<double>("bound_l2")};
}

losses::RecordClipper read_features(Fields& summand) {
  const auto dimension = summand.read<Index>("dimension");
  const auto norm = summand.read<double>("norm");
  const auto bound = summand.read<double>("features");
  return {dimension, bound, norm, summand.read<double>("features_l2")};
}

Leaf read_leaf(Fields& summand) {
  if (summand.kind() == "clipped_vector") return {.clipper = read_vector(summand)};
  summand.expect_kind("glm_gradient");
  return {.clipper = read_features(summand), .slope = summand.read<double>("slope")};
}

namespace {

void read_buffers(Fields& from, mechanisms::BltParameters& blt) {
  from.read("decay", blt.decay);
  from.read("weights", blt.omega);
}

void read_factorisation(Fields from, mechanisms::SumSettings& sum) {
  const std::string kind = from.kind();
  if (kind == "tree") {
    sum.factorisation = Factorisation::tree;
  } else if (kind == "square_root") {
    sum.factorisation = Factorisation::toeplitz;
  } else if (kind == "blt") {
    sum.factorisation = Factorisation::blt;
    read_buffers(from, sum.blt);
  } else if (kind == "blt_normalised") {
    sum.factorisation = Factorisation::blt_normalised;
    read_buffers(from, sum.blt);
    // Blocks are for this number of pushes.
    from.read<std::uint64_t>("pushes");
    sum.blt.ends = from.derive<std::vector<std::uint64_t>>("ends");
    sum.blt.levels = from.derive<std::vector<double>>("levels");
  } else if (kind == "banded") {
    sum.factorisation = Factorisation::banded;
    from.read<std::uint64_t>("pushes");
    from.read<std::uint64_t>("band");
    from.read<std::uint64_t>("windows");
    from.read<double>("tilt");
    sum.band.coefficients = from.derive<std::vector<double>>("coefficients");
    sum.band.levels = from.derive<std::vector<double>>("levels");
  } else {
    throw std::invalid_argument("unknown factorisation");
  }
  from.finish();
}

}  // namespace

GaussianSum read_gaussian_sum(Fields& from) {
  GaussianSum sum;
  sum.settings.horizon = std::max<std::uint64_t>(from.read<std::uint64_t>("pushes"), 1);
  from.read("order", sum.settings.order);
  from.read("scale", sum.settings.scale);
  from.read("grid", sum.settings.lattice.grid);
  from.read("limit", sum.settings.lattice.limit);
  sum.batches = read_batches(from);
  read_factorisation(from.open("factorisation", "a factorisation"), sum.settings);
  return sum;
}

experts::ExpertSettings read_experts(const py::object& problem) {
  return read_whole({problem, "a problem of experts"}, [](Fields& from) {
    return experts::ExpertSettings{.experts = from.read<std::uint64_t>("experts"),
                                   .horizon = from.read<std::uint64_t>("rounds"),
                                   .range = {from.read<double>("low"), from.read<double>("high")}};
  });
}

bool read_nothing(const py::object& description, bool independent) {
  Fields from(description, "a mechanism");
  if (from.kind() != "nothing") return false;
  if (!independent) throw std::invalid_argument("decisions depend on data");
  from.skip("reason");
  from.finish();
  return true;
}

std::vector<py::object> read_parts(const py::object& description, const char* how,
                                   const char* lemma) {
  Fields from(description, "parts");
  from.expect_kind("parts");
  if (from.read<std::string>("how") != how || from.read<std::string>("lemma") != lemma ||
      from.read<std::optional<std::uint64_t>>("forced")) {
    throw std::invalid_argument("the parts of this engine are related in another way");
  }
  auto parts = from.read<std::vector<py::object>>("parts");
  from.finish();
  return parts;
}

mechanisms::AboveThresholdSettings read_threshold_tests(const py::object& description,
                                                        double moved) {
  using mechanisms::ThresholdNoise;
  Fields from(description, "threshold_tests");
  from.expect_kind("threshold_tests");
  const mechanisms::AboveThresholdSettings own{
      .threshold_scale = from.read<double>("threshold_scale"),
      .query_scale = from.read<double>("query_scale"),
      .noise = from.read_name<ThresholdNoise>("law", {{"exponential", ThresholdNoise::exponential},
                                                      {"laplace", ThresholdNoise::laplace}}),
      .alarms = from.read<std::uint64_t>("alarms")};
  refuse_smaller(from.read<double>("sensitivity"), moved, "the sensitivity of queries");
  refuse_smaller(from.read<double>("spread"), moved, "the spread of queries");
  from.finish();
  return own;
}

namespace {

void read_losses(Fields from, CoupledDraws& draws) {
  from.expect_kind("smooth_losses");
  from.read("dimension", draws.dimension);
  from.read("lipschitz", draws.lipschitz);
  from.read("smoothness", draws.smoothness);
  from.skip("rank");  // rank of one loss's second derivatives: the sum knows its own
  from.skip("enforced");
  from.finish();
}

void read_keep(Fields from, CoupledDraws& draws) {
  draws.keep = from.kind();
  if (draws.keep != "scheduled") from.read("forced", draws.rule.forced);
  if (draws.keep == "density_ratio") {
    from.read("high", draws.high);
    from.read("low", draws.low);
  } else if (draws.keep == "anchored") {
    from.read("width", draws.high);
    draws.low = draws.high;
  } else if (draws.keep == "dartboard") {
    from.read("span", draws.span);
  }
  from.finish();
}

}  // namespace

CoupledDraws read_coupled_draws(Fields& from) {
  CoupledDraws draws;
  read_losses(from.open("losses", "smooth losses"), draws);
  read_keep(from.open("keep", "a coupling"), draws);
  from.read("rounds", draws.rule.horizon);
  from.read("block", draws.rule.block);
  const auto most = from.read<std::optional<std::uint64_t>>("cap");
  draws.rule.max_switches = most.value_or(mechanisms::SwitchSettings::kNoCap);
  return draws;
}

}  // namespace dpoco::bindings
