#include "dpoco/experts/prefix_hedge.hpp"

#include <bit>
#include <vector>

#include "dpoco/experts/net_transform.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::LinearTransform;
using experts::PrefixHedge;

namespace {

// A round's summand: the losses of experts, or a transform of losses on a net.
struct Leaf {
  std::uint64_t experts = 1;
  std::shared_ptr<LinearTransform> transform;
};

Leaf read_net(Fields& summand) {
  const auto counts = summand.read<std::vector<std::uint64_t>>("counts");
  const auto name = summand.read<std::string>("transform");
  // These fields are bounds that the caller promises, or determine the limits that are enforced.
  for (const char* made : {"sides", "lipschitz", "enforced"}) summand.skip(made);
  const auto limits = summand.derive<std::vector<double>>("limits");
  Leaf leaf;
  for (const std::uint64_t count : counts) leaf.experts *= count;
  if (counts.empty()) return leaf;  // a single point
  if (name == "increments") {
    leaf.transform = experts::make_increments(counts.at(0), limits.at(0));
  } else if (name == "grid_laplacian") {
    leaf.transform =
        experts::make_grid_laplacian(counts.at(0), counts.at(1), limits.at(0), limits.at(1));
  } else if (name == "parent") {
    const auto levels = static_cast<unsigned>(std::bit_width(counts.at(0) - 1)) - 1;
    leaf.transform = experts::make_parent(levels, limits);
  } else {
    throw std::invalid_argument("unknown transform");
  }
  return leaf;
}

std::unique_ptr<PrefixHedge> make_prefix_hedge(const py::object& mechanism,
                                               const py::object& tuning, const py::object& claim) {
  auto [sum, leaf] = read_gaussian_sum(mechanism, [](Fields& summand) -> Leaf {
    if (summand.kind() == "net_differences") return read_net(summand);
    summand.expect_kind("centred_losses");
    return {.experts = summand.read<std::uint64_t>("experts"), .transform = nullptr};
  });
  if (sum.batches.first != 1 || sum.batches.growth != Growth::none) {
    throw std::invalid_argument("Hedge has no batches");
  }
  experts::ExpertSettings shared;
  shared.experts = leaf.experts;
  const double rate = read_whole({tuning, "the tuning of Hedge"}, [&](Fields& from) {
    from.read("rounds", shared.horizon);
    shared.range = {from.read<double>("low"), from.read<double>("high")};
    return from.read<double>("learning_rate");
  });
  // The learner itself bounds the vector of a round, so the sum needs no clipper.
  return std::make_unique<PrefixHedge>(shared, rate,
                                       mechanisms::make_sum(sum.settings, read_claim(claim)),
                                       std::move(leaf.transform));
}

}  // namespace

// Transforms are registered later, because they derive from LinearTransform.
void register_prefix_hedge(py::module_& m) {
  py::class_<LinearTransform, std::shared_ptr<LinearTransform>>(m, "LinearTransform")
      .def_property_readonly("outputs", &LinearTransform::outputs);
  py::class_<PrefixHedge, ExpertLearner>(m, "PrefixHedge")
      .def(py::init(&make_prefix_hedge))
      .def("weights", array_getter<const PrefixHedge>(&PrefixHedge::experts, &PrefixHedge::weights))
      .def("leaf",
           [](PrefixHedge& self, Reals losses) {
             expect_size(losses, self.experts(), "losses");
             Array out(self.sum().dimension());
             self.leaf(losses, writable(out));
             return out;
           })
      .def("nonprivate_sum",
           [](const PrefixHedge& self) { return make_array(self.sum().nonprivate_sum()); });
}

}  // namespace dpoco::bindings
