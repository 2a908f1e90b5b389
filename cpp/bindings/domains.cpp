#include "dpoco/domains/domain.hpp"

#include "dpoco/domains/norms.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using domains::Box;
using domains::Domain;
using domains::LpBall;
using domains::Simplex;

namespace {

void expect_point(const Domain& domain, const Array& x, const char* name) {
  expect_size(x, static_cast<std::size_t>(domain.dimension()), name);
}

Array minimize_linear(const Domain& self, const Array& g) {
  expect_point(self, g, "g");
  Array out(self.dimension());
  self.minimize_linear(data(g), out.mutable_data());
  return out;
}

Array project(const Domain& self, const Array& x) {
  expect_point(self, x, "x");
  Array out(self.dimension());
  self.project(data(x), out.mutable_data());
  return out;
}

bool contains(const Domain& self, const Array& x, double tolerance) {
  expect_point(self, x, "x");
  return self.contains(data(x), tolerance);
}

Array center(const Domain& self) {
  Array out(self.dimension());
  self.center(out.mutable_data());
  return out;
}

std::shared_ptr<Box> make_box(const Array& lower, const Array& upper) {
  const auto vector = [](const Array& x) -> Vector {
    return Eigen::Map<const Vector>(data(x), x.size());
  };
  return std::make_shared<Box>(vector(lower), vector(upper));
}

}  // namespace

void register_domains(py::module_& m) {
  py::class_<Domain, std::shared_ptr<Domain>>(m, "Domain")
      .def_property_readonly("dimension", &Domain::dimension)
      .def("minimize_linear", &minimize_linear, "g"_a.noconvert())
      .def("project", &project, "x"_a.noconvert())
      .def("contains", &contains, "x"_a.noconvert(), "tolerance"_a)
      .def("center", &center);
  py::class_<LpBall, Domain, std::shared_ptr<LpBall>>(m, "LpBall", py::is_final())
      .def(py::init<Index, double, double>(), "dimension"_a, "p"_a, "radius"_a);
  py::class_<Box, Domain, std::shared_ptr<Box>>(m, "Box", py::is_final())
      .def(py::init(&make_box), "lower"_a.noconvert(), "upper"_a.noconvert());
  py::class_<Simplex, Domain, std::shared_ptr<Simplex>>(m, "Simplex", py::is_final())
      .def(py::init<Index, double>(), "dimension"_a, "scale"_a);
  m.def(
      "norm", [](const Array& x, double order) { return domains::norm(data(x), x.size(), order); },
      "x"_a.noconvert(), "order"_a);
}

}  // namespace dpoco::bindings
