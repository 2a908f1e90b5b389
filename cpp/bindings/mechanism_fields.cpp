#include "mechanism_fields.hpp"

#include <optional>
#include <string>
#include <vector>

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
    // Blocks are those of so many pushes.
    from.read<std::uint64_t>("pushes");
    sum.blt.ends = from.derive<std::vector<std::uint64_t>>("ends");
    sum.blt.levels = from.derive<std::vector<double>>("levels");
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

namespace {

void read_losses(Fields from, CoupledDraws& draws) {
  from.expect_kind("smooth_losses");
  from.read("dimension", draws.dimension);
  from.read("lipschitz", draws.lipschitz);
  from.read("smoothness", draws.smoothness);
  from.skip("rank");  // of one loss's second derivatives: the sum of losses has its own
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
