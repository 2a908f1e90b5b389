#include "common.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::bindings {

using noise::Decisions;
using noise::DiscreteGaussian;
using noise::DiscreteLaplace;
using noise::GeneralizedGaussian;
using random::Source;

// Where the interpreter lock is released, the lock of dpoco.random.Source protects the generator.
void register_noise(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  m.def("fill_gamma", &noise::gammas, Unlocked());
  m.def("fill_generalized_gaussian", [](Source& source, double order, double scale, Array& out) {
    const auto d = static_cast<std::size_t>(out.shape(1));  // rows are vectors
    const RealsOut to = writable(out);
    const py::gil_scoped_release nogil;
    GeneralizedGaussian sampler(static_cast<Index>(d), order, scale);
    for (std::size_t i = 0; i < to.size(); i += d) sampler.sample(source, to.subspan(i, d));
  });
  m.def(
      "fill_discrete",
      [](Source& source, const std::string& law, double numerator, double denominator, bool exact,
         std::span<std::int64_t> out) {
        const auto decisions = exact ? Decisions::exact : Decisions::fast;
        const noise::Ratio scale{numerator, denominator};
        if (law == "laplace") return DiscreteLaplace(scale, decisions).draw_many(source, out);
        noise::fill(DiscreteGaussian(scale, decisions), source, out);
      },
      Unlocked());
}

}  // namespace dpoco::bindings
