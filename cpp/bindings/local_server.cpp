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
using Integers = py::array_t<std::int64_t, py::array::c_style>;

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

std::size_t rows_of(const Integers& values, std::size_t width) {
  if (values.ndim() != 2 || static_cast<std::size_t>(values.shape(1)) != width) {
    throw std::invalid_argument("values must have one row a report");
  }
  return static_cast<std::size_t>(values.shape(0));
}

Array centred_losses(const Array& matrix, double mixing) {
  const Shape shape = shape_of(matrix);
  Array out({matrix.shape(0), matrix.shape(1)});
  double* to = out.mutable_data();
  const double* from = data(matrix);
  {
    const py::gil_scoped_release nogil;
    local::centred_losses(from, shape.rows, shape.columns, shape.columns, mixing, to);
  }
  return out;
}

py::tuple loss_ranges(const Array& matrix, double mixing) {
  const Shape shape = shape_of(matrix);
  Array middle(matrix.shape(0));
  Array half_range(matrix.shape(0));
  Array sums(matrix.shape(0));
  const double* from = data(matrix);
  double* to[3] = {middle.mutable_data(), half_range.mutable_data(), sums.mutable_data()};
  {
    const py::gil_scoped_release nogil;
    local::loss_ranges(from, shape.rows, shape.columns, mixing, to[0], to[1], to[2]);
  }
  return py::make_tuple(middle, half_range, sums);
}

Array mixture(const Array& matrix, const Array& coefficients) {
  const Shape shape = shape_of(matrix);
  expect_size(coefficients, shape.rows, "coefficients");
  Array out(matrix.shape(1));
  double* to = out.mutable_data();
  const double* from = data(matrix);
  const double* factors = data(coefficients);
  {
    const py::gil_scoped_release nogil;
    local::mixture(from, factors, shape.rows, shape.columns, to);
  }
  return out;
}

py::tuple threshold_means(const Array& matrix, const Array& coefficients) {
  const Shape shape = shape_of(matrix);
  expect_size(coefficients, shape.rows, "coefficients");
  Array phi(matrix.shape(1));
  Array means(matrix.shape(0));
  const double* from = data(matrix);
  const double* factors = data(coefficients);
  double* signs = phi.mutable_data();
  double* to = means.mutable_data();
  {
    const py::gil_scoped_release nogil;
    local::threshold_means(from, factors, shape.rows, shape.columns, signs, to);
  }
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
  local::threshold_question(named, local::PublicCoins(seed, round, slot), hypotheses,
                            members.data(), out.mutable_data());
  return out;
}

Array query_means(const Array& matrix, const Array& phi) {
  const Shape shape = shape_of(matrix);
  expect_size(phi, shape.columns, "phi");
  Array means(matrix.shape(0));
  local::query_means(data(matrix), data(phi), shape.rows, shape.columns, means.mutable_data());
  return means;
}

double bit_information(const Array& weights, const Array& means, double contrast) {
  expect_size(means, static_cast<std::size_t>(weights.size()), "means");
  return local::bit_information(data(weights), data(means),
                                static_cast<std::size_t>(weights.size()), contrast);
}

// Statistics of the rows that do not depend on weights: kept where the context stays the same.
Array row_statistics(const Array& matrix, std::optional<double> contraction) {
  const Shape shape = shape_of(matrix);
  Array out(matrix.shape(0));
  double* to = out.mutable_data();
  if (contraction) {
    local::response_entropies(data(matrix), shape.rows, shape.columns, *contraction, to);
  } else {
    local::row_squares(data(matrix), shape.rows, shape.columns, to);
  }
  return out;
}

double response_information(const Array& weights, const Array& matrix, const Array& entropies,
                            double contraction) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(entropies, shape.rows, "entropies");
  return local::response_information(data(weights), data(matrix), data(entropies), shape.rows,
                                     shape.columns, contraction);
}

double weighted_spread(const Array& weights, const Array& matrix, const Array& squares) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(squares, shape.rows, "squares");
  return local::weighted_spread(data(weights), data(matrix), data(squares), shape.rows,
                                shape.columns);
}

// Coefficients and means, starting from the two largest weights.
py::tuple adaptive_query(const Array& weights, const Array& matrix) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  if (shape.rows < 2) throw std::invalid_argument("an adaptive query needs two hypotheses");
  Array coefficients(matrix.shape(0));
  Array means(matrix.shape(0));
  std::vector<double> scratch(2 * shape.rows);
  std::size_t first = 0;
  std::size_t second = 0;
  local::leading_pair(data(weights), shape.rows, first, second);
  local::adaptive_query(data(weights), data(matrix), shape.rows, shape.columns, first, second,
                        coefficients.mutable_data(), means.mutable_data(), scratch.data());
  return py::make_tuple(coefficients, means);
}

template <class Fill>
Array copied(std::size_t n, Fill fill) {
  Array out(static_cast<py::ssize_t>(n));
  fill(out.mutable_data());
  return out;
}

void register_posterior(py::module_& m) {
  py::class_<Posterior>(m, "LocalPosterior")
      .def(py::init<std::size_t, double>(), "hypotheses"_a, "temperature"_a)
      .def_property_readonly("reports", &Posterior::reports)
      .def("log_likelihoods",
           [](const Posterior& self) {
             return copied(self.hypotheses(), [&](double* out) {
               std::copy_n(self.log_likelihoods(), self.hypotheses(), out);
             });
           })
      .def(
          "weights",
          [](const Posterior& self, double temperature) {
            return copied(self.hypotheses(), [&](double* out) { self.weights(temperature, out); });
          },
          "temperature"_a)
      .def(
          "add_bits",
          [](Posterior& self, const Array& means, double contrast, const Integers& values) {
            const Shape shape = shape_of(means);
            expect_size(means, shape.rows * self.hypotheses(), "means");
            self.add_bits(data(means), contrast, shape.rows, values.data(),
                          rows_of(values, shape.rows));
          },
          "means"_a.noconvert(), "contrast"_a, "values"_a.noconvert())
      .def(
          "add_subsets",
          [](Posterior& self, const Array& matrix, double excess, const Integers& values) {
            const Shape shape = shape_of(matrix);
            expect_size(matrix, self.hypotheses() * shape.columns, "matrix");
            const std::size_t size =
                values.ndim() == 2 ? static_cast<std::size_t>(values.shape(1)) : 0;
            self.add_subsets(data(matrix), shape.columns, excess, size, values.data(),
                             rows_of(values, size));
          },
          "matrix"_a.noconvert(), "excess"_a, "values"_a.noconvert())
      .def("state", &state_of<Posterior>)
      .def("restore", &restore<Posterior>, "state"_a);
}

void register_hedge(py::module_& m) {
  py::class_<Hedge>(m, "LocalHedge")
      .def(py::init<std::size_t, double>(), "hypotheses"_a, "fixed_rate"_a)
      .def_property_readonly("reports", &Hedge::reports)
      .def_property_readonly("start", &Hedge::start)
      .def_property_readonly("spread", &Hedge::spread)
      .def_property_readonly("gaps", &Hedge::gaps)
      .def_property_readonly("rate", &Hedge::rate)
      .def("losses",
           [](const Hedge& self) {
             return copied(self.hypotheses(), [&](double* out) {
               std::copy_n(self.losses(), self.hypotheses(), out);
             });
           })
      .def("weights",
           [](const Hedge& self) {
             return copied(self.hypotheses(), [&](double* out) {
               std::copy_n(self.weights(), self.hypotheses(), out);
             });
           })
      .def("raise_start", &Hedge::raise_start, "start"_a)
      .def(
          "add",
          [](Hedge& self, const Array& estimates) {
            const Shape shape = shape_of(estimates);
            expect_size(estimates, shape.rows * self.hypotheses(), "estimates");
            for (std::size_t i = 0; i < shape.rows; ++i) {
              self.add(data(estimates) + i * self.hypotheses());
            }
          },
          "estimates"_a.noconvert())
      .def(
          "add_coordinate",
          [](Hedge& self, std::size_t index, const Array& middle, double scale,
             const Integers& bits) {
            expect_size(middle, self.hypotheses(), "middle");
            self.add_coordinate(index, data(middle), scale, bits.data(), rows_of(bits, 1));
          },
          "index"_a, "middle"_a.noconvert(), "scale"_a, "bits"_a.noconvert())
      .def("state", &state_of<Hedge>)
      .def("restore", &restore<Hedge>, "state"_a);
}

}  // namespace

// The server's side: losses, means of public questions, and the two learners' weights.
void register_local_server(py::module_& m) {
  m.def("local_centred_losses", &centred_losses, "matrix"_a.noconvert(), "mixing"_a);
  m.def("local_loss_ranges", &loss_ranges, "matrix"_a.noconvert(), "mixing"_a);
  m.def("local_mixture", &mixture, "matrix"_a.noconvert(), "coefficients"_a.noconvert());
  m.def("local_threshold_means", &threshold_means, "matrix"_a.noconvert(),
        "coefficients"_a.noconvert());
  m.def("local_threshold_question", &threshold_question, "family"_a, "seed"_a, "round"_a, "slot"_a,
        "hypotheses"_a);
  m.def("local_query_means", &query_means, "matrix"_a.noconvert(), "phi"_a.noconvert());
  m.def("local_bit_information", &bit_information, "weights"_a.noconvert(), "means"_a.noconvert(),
        "contrast"_a);
  m.def("local_row_statistics", &row_statistics, "matrix"_a.noconvert(), "contraction"_a);
  m.def("local_response_information", &response_information, "weights"_a.noconvert(),
        "matrix"_a.noconvert(), "entropies"_a.noconvert(), "contraction"_a);
  m.def("local_weighted_spread", &weighted_spread, "weights"_a.noconvert(), "matrix"_a.noconvert(),
        "squares"_a.noconvert());
  m.def("local_adaptive_query", &adaptive_query, "weights"_a.noconvert(), "matrix"_a.noconvert());
  // The same bits on every machine, unlike libm's.
  m.def("local_log", [](double x) { return elementary::log(x); }, "x"_a);
  m.def("local_exp", [](double x) { return elementary::exp(x); }, "x"_a);
  register_posterior(m);
  register_hedge(m);
}

}  // namespace dpoco::bindings
