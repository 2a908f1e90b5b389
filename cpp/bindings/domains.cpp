#include "dpoco/domains/domain.hpp"

#include "dpoco/domains/norms.hpp"
#include "dpoco/domains/polytope.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using domains::Box;
using domains::Domain;
using domains::LpBall;
using domains::Polytope;
using domains::Simplex;

namespace {

void expect_point(const Domain& domain, Reals x, const char* name) {
  expect_size(x, static_cast<std::size_t>(domain.dimension()), name);
}

template <class Fill>
Array point(const Domain& domain, Fill fill) {
  Array out(domain.dimension());
  fill(writable(out));
  return out;
}

Vector vector_of(const Array& x) { return as_vector(entries(x)); }

std::shared_ptr<Box> make_box(const Array& lower, const Array& upper) {
  return std::make_shared<Box>(vector_of(lower), vector_of(upper));
}

RowMatrix matrix_of(const Array& rows) {
  if (rows.ndim() != 2) throw std::invalid_argument("rows must be a matrix");
  return Eigen::Map<const RowMatrix>(rows.data(), rows.shape(0), rows.shape(1));
}

std::shared_ptr<Polytope> make_polytope(const Array& rows, const Array& bounds, const Array& center,
                                        const Array& lower, const Array& upper, double radius) {
  return std::make_shared<Polytope>(matrix_of(rows), vector_of(bounds), vector_of(center),
                                    vector_of(lower), vector_of(upper), radius);
}

py::tuple polytope_box(const Array& rows, const Array& bounds, const Array& center, double reach) {
  const RowMatrix matrix = matrix_of(rows);
  const Vector right = vector_of(bounds);
  const Vector middle = vector_of(center);
  Vector below;
  Vector above;
  {
    const py::gil_scoped_release nogil;
    Polytope::bounding_box(matrix, right, middle, reach, below, above);
  }
  return py::make_tuple(Array(below.size(), below.data()), Array(above.size(), above.data()));
}

}  // namespace

void register_domains(py::module_& m) {
  py::class_<Domain, std::shared_ptr<Domain>>(m, "Domain")
      .def("minimize_linear",
           [](const Domain& self, Reals g) {
             expect_point(self, g, "g");
             return point(self, [&](RealsOut out) { self.minimize_linear(g, out); });
           })
      .def("project",
           [](const Domain& self, Reals x) {
             expect_point(self, x, "x");
             return point(self, [&](RealsOut out) { self.project(x, out); });
           })
      .def("contains",
           [](const Domain& self, Reals x, double tolerance) {
             expect_point(self, x, "x");
             return self.contains(x, tolerance);
           })
      .def("center",
           [](const Domain& self) { return point(self, [&](RealsOut out) { self.center(out); }); });
  py::class_<LpBall, Domain, std::shared_ptr<LpBall>>(m, "LpBall", py::is_final())
      .def(py::init<Index, double, double>());
  py::class_<Box, Domain, std::shared_ptr<Box>>(m, "Box", py::is_final()).def(py::init(&make_box));
  py::class_<Simplex, Domain, std::shared_ptr<Simplex>>(m, "Simplex", py::is_final())
      .def(py::init<Index, double>());
  py::class_<Polytope, Domain, std::shared_ptr<Polytope>>(m, "Polytope", py::is_final())
      .def(py::init(&make_polytope));
  m.def("polytope_box", &polytope_box);
  m.def("norm", &domains::norm);
}

}  // namespace dpoco::bindings
