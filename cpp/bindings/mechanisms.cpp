#include "registrars.hpp"
#include "rounds.hpp"

namespace dpoco::bindings {

using mechanisms::ContinualSum;
using mechanisms::NoiseLaw;
using mechanisms::NoiseProcess;

namespace {

std::unique_ptr<NoiseProcess> make_process(const std::string& method, Index dimension,
                                           std::uint64_t horizon, NoiseLaw law,
                                           const py::dict& settings) {
  if (law.scale == 0.0) return mechanisms::make_silence(dimension);
  if (method == "tree") return mechanisms::make_tree(dimension, horizon, law);
  if (method == "honaker") return mechanisms::make_honaker(dimension, horizon, law);
  if (method == "toeplitz") return mechanisms::make_toeplitz(dimension, horizon, law);
  if (method == "blt") {
    return mechanisms::make_blt(dimension, law,
                                {settings["keep"].cast<std::vector<double>>(),
                                 settings["omega"].cast<std::vector<double>>(),
                                 settings["decay"].cast<std::vector<double>>()});
  }
  throw std::invalid_argument("unknown method of a continual sum");
}

}  // namespace

ContinualSum make_continual_sum(const py::dict& settings,
                                std::optional<losses::RecordClipper> clipper) {
  const auto dimension = settings["dimension"].cast<Index>();
  const auto horizon = settings["horizon"].cast<std::uint64_t>();
  const mechanisms::Lattice lattice{settings["grid"].cast<double>(),
                                    settings["limit"].cast<double>()};
  const NoiseLaw law{settings["order"].cast<double>(), settings["scale"].cast<double>(),
                     lattice.grid};
  return {dimension,
          horizon,
          make_process(settings["method"].cast<std::string>(), dimension, horizon, law, settings),
          law.scale,
          make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>()),
          std::move(clipper),
          lattice};
}

void register_mechanisms(py::module_& m) {
  py::class_<ContinualSum> sum(m, "ContinualSum");
  sum.def(py::init([](const py::dict& settings, const losses::RecordClipper& clipper) {
            return make_continual_sum(settings, clipper);
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
