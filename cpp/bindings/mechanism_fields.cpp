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

}  // namespace dpoco::bindings
