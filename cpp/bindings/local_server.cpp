#include <optional>
#include <vector>

#include "dpoco/local/channel.hpp"
#include "dpoco/local/hedge.hpp"
#include "dpoco/local/losses.hpp"
#include "dpoco/local/posterior.hpp"
#include "dpoco/local/queries.hpp"
#include "dpoco/simd/elementary.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

using local::Hedge;
using local::Posterior;

struct Shape {
  std::size_t rows;
  std::size_t columns;
};

Shape shape_of(const Array& matrix) {
  if (matrix.ndim() != 2 || matrix.shape(0) < 1 || matrix.shape(1) < 1) {
    throw std::invalid_argument("matrix must have two dimensions, none empty");
  }
  return {static_cast<std::size_t>(matrix.shape(0)), static_cast<std::size_t>(matrix.shape(1))};
}

void expect_rows(const Integers& values, std::size_t width) {
  if (values.ndim() != 2 || static_cast<std::size_t>(values.shape(1)) != width) {
    throw std::invalid_argument("values must have one row a report");
  }
}

// Runs `fill` without the interpreter lock. The array that it writes must exist before.
template <class Fill>
void without_lock(Fill fill) {
  const py::gil_scoped_release nogil;
  fill();
}

Array centred_losses(const Array& matrix, double mixing) {
  const Shape shape = shape_of(matrix);
  Array out({matrix.shape(0), matrix.shape(1)});
  without_lock(
      [&, to = writable(out)] { local::centred_losses(entries(matrix), shape.rows, mixing, to); });
  return out;
}

py::tuple loss_ranges(const Array& matrix, double mixing) {
  shape_of(matrix);
  Array middle(matrix.shape(0)), half_range(matrix.shape(0)), sums(matrix.shape(0));
  without_lock(
      [&, first = writable(middle), second = writable(half_range), third = writable(sums)] {
        local::loss_ranges(entries(matrix), mixing, first, second, third);
      });
  return py::make_tuple(middle, half_range, sums);
}

Array mixture(const Array& matrix, Reals coefficients) {
  expect_size(coefficients, shape_of(matrix).rows, "coefficients");
  Array out(matrix.shape(1));
  without_lock([&, to = writable(out)] { local::mixture(entries(matrix), coefficients, to); });
  return out;
}

py::tuple threshold_means(const Array& matrix, Reals coefficients) {
  expect_size(coefficients, shape_of(matrix).rows, "coefficients");
  Array phi(matrix.shape(1)), means(matrix.shape(0));
  without_lock([&, signs = writable(phi), to = writable(means)] {
    local::threshold_means(entries(matrix), coefficients, signs, to);
  });
  return py::make_tuple(phi, means);
}

// The coefficients of a question of one bit, shape (K,).
Array threshold_question(const std::string& family, std::uint64_t seed, std::uint64_t round,
                         std::size_t slot, std::size_t hypotheses) {
  const local::Family named = local::family_from(family);
  if (named == local::Family::hadamard || named == local::Family::adaptive) {
    throw std::invalid_argument("not a family of fixed threshold questions");
  }
  if (hypotheses < 1) throw std::invalid_argument("there is nothing to ask");
  Array out(static_cast<py::ssize_t>(hypotheses));
  std::vector<std::uint32_t> members(hypotheses);
  local::threshold_question(named, local::PublicCoins(seed, round, slot), members, writable(out));
  return out;
}

Array query_means(const Array& matrix, Reals phi) {
  expect_size(phi, shape_of(matrix).columns, "phi");
  Array means(matrix.shape(0));
  local::query_means(entries(matrix), phi, writable(means));
  return means;
}

double bit_information(Reals weights, Reals means, double contrast) {
  expect_size(means, weights.size(), "means");
  return local::bit_information(weights, means, contrast);
}

// Statistics of the rows that do not depend on weights. The caller keeps them while the context
// stays.
Array row_statistics(const Array& matrix, std::optional<double> contraction) {
  shape_of(matrix);
  Array out(matrix.shape(0));
  if (contraction) {
    local::response_entropies(entries(matrix), *contraction, writable(out));
  } else {
    local::row_squares(entries(matrix), writable(out));
  }
  return out;
}

double response_information(Reals weights, const Array& matrix, Reals entropies,
                            double contraction) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(entropies, shape.rows, "entropies");
  return local::response_information(weights, entries(matrix), entropies, contraction);
}

double weighted_spread(Reals weights, const Array& matrix, Reals squares) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(squares, shape.rows, "squares");
  return local::weighted_spread(weights, entries(matrix), squares);
}

// Coefficients and means of the adaptive query that starts from the two largest weights.
py::tuple adaptive_query(Reals weights, const Array& matrix) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  if (shape.rows < 2) throw std::invalid_argument("an adaptive query needs two hypotheses");
  Array coefficients(matrix.shape(0)), means(matrix.shape(0));
  std::vector<double> scratch(2 * shape.rows);
  std::size_t first = 0;
  std::size_t second = 0;
  local::leading_pair(weights, first, second);
  local::adaptive_query(weights, entries(matrix), first, second, writable(coefficients),
                        writable(means), scratch);
  return py::make_tuple(coefficients, means);
}

Array copied(Reals values) { return Array(static_cast<py::ssize_t>(values.size()), values.data()); }

void register_posterior(py::module_& m) {
  py::class_<Posterior>(m, "LocalPosterior")
      .def(py::init<std::size_t, double>())
      .def_property_readonly("reports", &Posterior::reports)
      .def("weights",
           [](const Posterior& self, double temperature) {
             Array out(static_cast<py::ssize_t>(self.hypotheses()));
             self.weights(temperature, writable(out));
             return out;
           })
      .def("add_bits",
           [](Posterior& self, const Array& means, double contrast, const Integers& values) {
             const Shape shape = shape_of(means);
             expect_size(means, shape.rows * self.hypotheses(), "means");
             expect_rows(values, shape.rows);
             self.add_bits(entries(means), contrast, entries(values));
           })
      .def("add_subsets",
           [](Posterior& self, const Array& matrix, double excess, const Integers& values) {
             expect_size(matrix, self.hypotheses() * shape_of(matrix).columns, "matrix");
             const auto size =
                 values.ndim() == 2 ? static_cast<std::size_t>(values.shape(1)) : std::size_t{0};
             expect_rows(values, size);
             self.add_subsets(entries(matrix), excess, size, entries(values));
           })
      .def("state", &state_of<Posterior>)
      .def("restore", &restore<Posterior>);
}

void register_hedge(py::module_& m) {
  py::class_<Hedge>(m, "LocalHedge")
      .def(py::init<std::size_t, double>())
      .def_property_readonly("reports", &Hedge::reports)
      .def_property_readonly("start", &Hedge::start)
      .def_property_readonly("spread", &Hedge::spread)
      .def_property_readonly("gaps", &Hedge::gaps)
      .def("weights", [](const Hedge& self) { return copied(self.weights()); })
      .def("raise_start", &Hedge::raise_start)
      .def("add",
           [](Hedge& self, const Array& estimates) {
             const Shape shape = shape_of(estimates);
             expect_size(estimates, shape.rows * self.hypotheses(), "estimates");
             for (std::size_t i = 0; i < shape.rows; ++i) {
               self.add(entries(estimates).subspan(i * self.hypotheses(), self.hypotheses()));
             }
           })
      .def("add_coordinate",
           [](Hedge& self, std::size_t index, Reals middle, double scale, const Integers& bits) {
             expect_size(middle, self.hypotheses(), "middle");
             expect_rows(bits, 1);
             self.add_coordinate(index, middle, scale, entries(bits));
           })
      .def("state", &state_of<Hedge>)
      .def("restore", &restore<Hedge>);
}

}  // namespace

// The server's part: losses, means of public questions, and the weights of the two learners.
void register_local_server(py::module_& m) {
  m.def("local_centred_losses", &centred_losses);
  m.def("local_loss_ranges", &loss_ranges);
  m.def("local_mixture", &mixture);
  m.def("local_threshold_means", &threshold_means);
  m.def("local_threshold_question", &threshold_question);
  m.def("local_query_means", &query_means);
  m.def("local_bit_information", &bit_information);
  m.def("local_row_statistics", &row_statistics);
  m.def("local_response_information", &response_information);
  m.def("local_weighted_spread", &weighted_spread);
  m.def("local_adaptive_query", &adaptive_query);
  // Has the same bits on every machine, unlike libm's log.
  m.def("local_log", [](double x) { return elementary::log(x); });
  m.def("local_exp", [](double x) { return elementary::exp(x); });
  register_posterior(m);
  register_hedge(m);
}

}  // namespace dpoco::bindings
