#include "dpoco/frank_wolfe/polyhedral_frank_wolfe.hpp"

#include "dpoco/domains/vertex_set.hpp"
#include "frank_wolfe_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using frank_wolfe::LeafRule;
using frank_wolfe::PolyhedralFrankWolfe;
using frank_wolfe::PolyhedralFrankWolfeSettings;
using mechanisms::SelectionNoise;
using mechanisms::VertexSelection;

namespace {

SelectionNoise selection_noise(const std::string& name) {
  if (name == "gumbel") return SelectionNoise::gumbel;
  if (name == "laplace") return SelectionNoise::laplace;
  throw std::invalid_argument("unknown selector");
}

Array select(VertexSelection& self, const Array& direction, double rate, random::Source& source) {
  expect_size(direction, static_cast<std::size_t>(self.dimension()), "direction");
  Array out(self.dimension());
  self.select(data(direction), rate, source, out.mutable_data());
  return out;
}

std::shared_ptr<domains::VertexSet> make_vertex_set(const Array& vertices) {
  if (vertices.ndim() != 2) throw std::invalid_argument("vertices must be a matrix");
  return std::make_shared<domains::VertexSet>(
      Eigen::Map<const RowMatrix>(data(vertices), vertices.shape(0), vertices.shape(1)));
}

}  // namespace

std::unique_ptr<PolyhedralFrankWolfe> make_polyhedral_frank_wolfe(
    std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
    const losses::RecordClipper& clipper, const py::dict& settings, const Array& start) {
  expect_size(start, static_cast<std::size_t>(domain->dimension()), "start");
  const PolyhedralFrankWolfeSettings own{
      .horizon = settings["rounds"].cast<std::uint64_t>(),
      .batch = settings["batch"].cast<std::uint64_t>(),
      .published_weights = settings["published_weights"].cast<bool>(),
      .noise = selection_noise(settings["selector"].cast<std::string>()),
      .scale = settings["scale"].cast<double>(),
      .exponent = settings["exponent"].cast<double>()};
  return std::make_unique<PolyhedralFrankWolfe>(
      std::move(domain), LeafRule(loss, clipper, settings["leaf_scalar_bound"].cast<double>()), own,
      make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>()),
      data(start));
}

void register_polyhedral_frank_wolfe(py::module_& m) {
  py::class_<domains::VertexSet, domains::Domain, std::shared_ptr<domains::VertexSet>>(
      m, "VertexSet", py::is_final())
      .def(py::init(&make_vertex_set), "vertices"_a.noconvert());
  py::class_<VertexSelection>(m, "VertexSelection")
      .def(py::init([](std::shared_ptr<const domains::Domain> domain, const std::string& selector) {
             return mechanisms::make_vertex_selection(std::move(domain), selection_noise(selector));
           }),
           "domain"_a, "selector"_a)
      .def("select", &select, "direction"_a.noconvert(), "rate"_a, "source"_a);

  py::class_<PolyhedralFrankWolfe> learner(m, "PolyhedralFrankWolfe");
  learner.def(py::init(&make_polyhedral_frank_wolfe), "domain"_a, "loss"_a, "clipper"_a,
              "settings"_a, "start"_a.noconvert());
  bind_leaf_learner(learner,
                    [](const PolyhedralFrankWolfe& self) { return self.nonprivate_sum(); });
}

}  // namespace dpoco::bindings
