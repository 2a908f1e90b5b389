#include "dpoco/local/public_coins.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/local/randomizers.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using local::BitLaw;
using local::PublicCoins;
using local::SubsetLaw;
using random::Source;

namespace {

std::size_t row_count(const Array& matrix) {
  if (matrix.ndim() != 2) throw std::invalid_argument("matrix must have two dimensions");
  return static_cast<std::size_t>(matrix.shape(0));
}

Array threshold_values(Reals coefficients, const Array& matrix) {
  expect_size(coefficients, row_count(matrix), "coefficients");
  Array phi(matrix.shape(1));
  const RealsOut out = writable(phi);
  local::threshold_values(coefficients, entries(matrix), out.size(), out);
  return phi;
}

Array loss_values(std::size_t index, double midpoint, double half_range, double mixing,
                  const Array& matrix) {
  const std::size_t rows = row_count(matrix);
  if (index >= rows) throw std::invalid_argument("index must be that of a row");
  Array phi(matrix.shape(1));
  const RealsOut out = writable(phi);
  local::loss_values({index, midpoint, half_range, mixing}, rows, entries(matrix), out.size(), out);
  return phi;
}

Plain<std::uint64_t> thresholds(const BitLaw& law, Reals phi) {
  Plain<std::uint64_t> out(static_cast<py::ssize_t>(phi.size()));
  std::ranges::transform(phi, writable(out).begin(),
                         [&](double each) { return law.threshold(each); });
  return out;
}

// out[i] = [U < thresholds[places[i]]].
void draw_bits(Source& source, std::span<const std::uint64_t> table,
               std::span<const std::int64_t> places, std::span<std::int64_t> out) {
  expect_size(out, places.size(), "out");
  const py::gil_scoped_release nogil;  // dpoco.random.Source holds its own lock
  for (const std::int64_t place : places) {
    if (static_cast<std::uint64_t>(place) >= table.size()) {
      throw std::invalid_argument("place too large");
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = BitLaw::draw(table[static_cast<std::size_t>(places[i])], source) ? 1 : 0;
  }
}

void draw_subsets(const SubsetLaw& law, Source& source, std::span<const std::int64_t> labels,
                  std::span<std::int64_t> out) {
  expect_size(out, labels.size() * law.size(), "out");
  const py::gil_scoped_release nogil;  // dpoco.random.Source holds its own lock
  SubsetLaw own(law);                  // with a workspace of this call
  for (std::size_t i = 0; i < labels.size(); ++i) {
    own.draw(labels[i], source, out.subspan(i * law.size(), law.size()));
  }
}

}  // namespace

void register_local_client(py::module_& m) {
  py::class_<PublicCoins>(m, "PublicCoins")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>())
      .def("word", &PublicCoins::word)
      .def("below", [](PublicCoins& self, std::uint64_t n) {
        if (n == 0) throw std::invalid_argument("n must be at least 1");
        return self.below(n);
      });

  py::class_<BitLaw>(m, "BitLaw")
      .def(py::init<double>())
      .def_property_readonly("low", &BitLaw::low)
      .def_property_readonly("high", &BitLaw::high)
      .def_property_readonly("contrast", &BitLaw::contrast)
      .def("threshold", &BitLaw::threshold)
      .def("thresholds", &thresholds);

  py::class_<SubsetLaw>(m, "SubsetLaw")
      .def(py::init<std::uint64_t, std::uint64_t, double>())
      .def_property_readonly("inside", &SubsetLaw::inside)
      .def("draw", &draw_subsets);

  m.def("local_threshold_values", &threshold_values);
  m.def("local_loss_values", &loss_values);
  m.def("local_draw_bits", &draw_bits);
}

}  // namespace dpoco::bindings
