#include "common.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::bindings {

using noise::GeneralizedGaussian;
using random::Source;

void register_noise(py::module_& m) {
  m.def("fill_gamma",
        [](Source& source, double shape, Array& out) {
          double* to = out.mutable_data();
          for (py::ssize_t i = 0; i < out.size(); ++i) to[i] = noise::gamma(source, shape);
        },
        "source"_a, "shape"_a, "out"_a.noconvert());
  m.def("fill_generalized_gaussian",
        [](Source& source, double order, double scale, Array& out) {  // rows are vectors
          GeneralizedGaussian sampler(out.shape(1), order, scale);
          for (py::ssize_t i = 0; i < out.shape(0); ++i) {
            sampler.sample(source, out.mutable_data(i, 0));
          }
        },
        "source"_a, "order"_a, "scale"_a, "out"_a.noconvert());
}

}  // namespace dpoco::bindings
