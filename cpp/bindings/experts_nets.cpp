#include "dpoco/experts/net_transform.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::LinearTransform;
using experts::NetTransform;

// After register_prefix_hedge, which knows LinearTransform.
void register_nets(py::module_& m) {
  py::class_<NetTransform, LinearTransform, std::shared_ptr<NetTransform>>(m, "NetTransform")
      .def_static("increments", &experts::make_increments, "points"_a, "limit"_a)
      .def_static("grid_laplacian", &experts::make_grid_laplacian, "rows"_a, "columns"_a,
                  "row_limit"_a, "column_limit"_a)
      .def_static("parent", &experts::make_parent, "levels"_a, "limits"_a)
      .def(
          "apply",
          [](NetTransform& self, const Array& losses, Array& out) {
            expect_size(losses, self.inputs(), "losses");
            expect_size(out, self.outputs(), "out");
            return self.apply(entries(losses), writable(out));
          },
          "losses"_a.noconvert(), "out"_a.noconvert())
      .def(
          "invert",
          [](NetTransform& self, const Array& sums) {
            expect_size(sums, self.outputs(), "sums");
            Array out(static_cast<py::ssize_t>(self.inputs()));
            self.invert(entries(sums), writable(out));
            return out;
          },
          "sums"_a.noconvert());
}

}  // namespace dpoco::bindings
