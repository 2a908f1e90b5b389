#include "dpoco/experts/net_transform.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::LinearTransform;
using experts::NetTransform;

// Called after register_prefix_hedge, which registers LinearTransform.
void register_nets(py::module_& m) {
  py::class_<NetTransform, LinearTransform, std::shared_ptr<NetTransform>>(m, "NetTransform")
      .def_static("increments", &experts::make_increments)
      .def_static("grid_laplacian", &experts::make_grid_laplacian)
      .def_static("parent", &experts::make_parent)
      .def("apply",
           [](NetTransform& self, Reals losses, RealsOut out) {
             expect_size(losses, self.inputs(), "losses");
             expect_size(out, self.outputs(), "out");
             return self.apply(losses, out);
           })
      .def("invert", [](NetTransform& self, Reals sums) {
        expect_size(sums, self.outputs(), "sums");
        Array out(static_cast<py::ssize_t>(self.inputs()));
        self.invert(sums, writable(out));
        return out;
      });
}

}  // namespace dpoco::bindings
