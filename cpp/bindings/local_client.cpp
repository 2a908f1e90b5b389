#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/randomizers.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using local::BitLaw;
using local::LossScale;
using local::PublicCoins;
using local::SubsetLaw;
using random::Source;

namespace {

using Integers = py::array_t<std::int64_t, py::array::c_style>;

struct Matrix {
  const double* entries;
  std::size_t rows;
  std::size_t columns;
};

Matrix matrix_of(const Array& array) {
  if (array.ndim() != 2) throw std::invalid_argument("matrix must have two dimensions");
  return {data(array), static_cast<std::size_t>(array.shape(0)),
          static_cast<std::size_t>(array.shape(1))};
}

Array threshold_values(const Array& coefficients, const Array& matrix) {
  const Matrix table = matrix_of(matrix);
  expect_size(coefficients, table.rows, "coefficients");
  Array phi(matrix.shape(1));
  local::threshold_values(entries(coefficients), entries(matrix), table.columns, writable(phi));
  return phi;
}

Array loss_values(std::size_t index, double midpoint, double half_range, double mixing,
                  const Array& matrix) {
  const Matrix table = matrix_of(matrix);
  if (index >= table.rows) throw std::invalid_argument("index must be that of a row");
  Array phi(matrix.shape(1));
  const LossScale scale{index, midpoint, half_range, mixing};
  local::loss_values(scale, table.rows, entries(matrix), table.columns, writable(phi));
  return phi;
}

py::array_t<std::uint64_t> thresholds(const BitLaw& law, const Array& phi) {
  py::array_t<std::uint64_t> out(phi.size());
  const double* const from = data(phi);
  std::uint64_t* const to = out.mutable_data();
  for (py::ssize_t i = 0; i < phi.size(); ++i) to[i] = law.threshold(from[i]);
  return out;
}

// out[i] = [U < thresholds[places[i]]].
void draw_bits(Source& source, const py::array_t<std::uint64_t, py::array::c_style>& table,
               const Integers& places, Integers& out) {
  const std::uint64_t* const k = table.data();
  const auto size = static_cast<std::uint64_t>(table.size());
  const std::int64_t* const from = places.data();
  const py::ssize_t n = places.size();
  if (out.size() != n) throw std::invalid_argument("out has the wrong number of entries");
  std::int64_t* const to = out.mutable_data();
  const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
  for (py::ssize_t i = 0; i < n; ++i) {
    if (static_cast<std::uint64_t>(from[i]) >= size) throw std::invalid_argument("place too large");
  }
  for (py::ssize_t i = 0; i < n; ++i) to[i] = BitLaw::draw(k[from[i]], source) ? 1 : 0;
}

void draw_subsets(const SubsetLaw& law, Source& source, const Integers& labels, Integers& out) {
  const py::ssize_t n = labels.size();
  const auto width = static_cast<py::ssize_t>(law.size());
  if (out.size() != n * width) throw std::invalid_argument("out has the wrong number of entries");
  const std::int64_t* const from = labels.data();
  std::int64_t* const to = out.mutable_data();
  const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
  SubsetLaw own(law);                  // with a workspace of this call
  for (py::ssize_t i = 0; i < n; ++i) own.draw(from[i], source, to + i * width);
}

}  // namespace

void register_local_client(py::module_& m) {
  py::class_<PublicCoins>(m, "PublicCoins")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>(), "seed"_a, "round"_a, "slot"_a)
      .def("word", &PublicCoins::word)
      .def(
          "below",
          [](PublicCoins& self, std::uint64_t n) {
            if (n == 0) throw std::invalid_argument("n must be at least 1");
            return self.below(n);
          },
          "n"_a);

  py::class_<BitLaw>(m, "BitLaw")
      .def(py::init<double>(), "epsilon"_a)
      .def_property_readonly("low", &BitLaw::low)
      .def_property_readonly("high", &BitLaw::high)
      .def_property_readonly("contrast", &BitLaw::contrast)
      .def("threshold", &BitLaw::threshold, "phi"_a)
      .def("thresholds", &thresholds, "phi"_a.noconvert());

  py::class_<SubsetLaw>(m, "SubsetLaw")
      .def(py::init<std::uint64_t, std::uint64_t, double>(), "labels"_a, "size"_a, "epsilon"_a)
      .def_property_readonly("inside", &SubsetLaw::inside)
      .def("draw", &draw_subsets, "source"_a, "labels"_a.noconvert(), "out"_a.noconvert());

  m.def("local_threshold_values", &threshold_values, "coefficients"_a.noconvert(),
        "matrix"_a.noconvert());
  m.def("local_loss_values", &loss_values, "index"_a, "midpoint"_a, "half_range"_a, "mixing"_a,
        "matrix"_a.noconvert());
  m.def("local_draw_bits", &draw_bits, "source"_a, "thresholds"_a.noconvert(),
        "places"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace dpoco::bindings
