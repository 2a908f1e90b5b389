#include "registrars.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using mechanisms::ContinualSum;

void register_mechanisms(py::module_& m) {
  py::class_<ContinualSum> sum(m, "ContinualSum");
  sum.def(py::init([](const py::object& settings, const losses::RecordClipper& clipper) {
            return make_continual_sum({settings, "a continual sum"}, clipper);
          }),
          "settings"_a, "clipper"_a)
      .def(
          "push",
          [](ContinualSum& self, const Array& value) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(value, d, "value");
            Array out(self.dimension());
            self.push(data(value), out.mutable_data());
            return out;
          },
          "value"_a.noconvert())
      .def(
          "run",
          [](ContinualSum& self, const Array& values, Array& out) {
            const auto d = static_cast<std::size_t>(self.dimension());
            const auto rounds = static_cast<std::size_t>(values.size()) / d;
            expect_size(values, rounds * d, "values");
            expect_size(out, rounds * d, "out");
            const double* from = data(values);
            double* to = out.mutable_data();
            const auto entered =
                self.enter();  // while the interpreter lock still orders the threads
            const py::gil_scoped_release nogil;  // no Python object is touched below
            self.run(entered, from, rounds, to);
          },
          "values"_a.noconvert(), "out"_a.noconvert());
  bind_rounds(sum);
}

}  // namespace dpoco::bindings
