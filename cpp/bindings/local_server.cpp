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

void expect_rows(const Integers& values, std::size_t width) {
  if (values.ndim() != 2 || static_cast<std::size_t>(values.shape(1)) != width) {
    throw std::invalid_argument("values must have one row a report");
  }
}

std::span<const std::int64_t> integers(const Integers& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

Array centred_losses(const Array& matrix, double mixing) {
  const Shape shape = shape_of(matrix);
  Array out({matrix.shape(0), matrix.shape(1)});
  const auto from = entries(matrix);
  const auto to = writable(out);
  {
    const py::gil_scoped_release nogil;
    local::centred_losses(from, shape.rows, mixing, to);
  }
  return out;
}

py::tuple loss_ranges(const Array& matrix, double mixing) {
  shape_of(matrix);
  Array middle(matrix.shape(0));
  Array half_range(matrix.shape(0));
  Array sums(matrix.shape(0));
  const auto from = entries(matrix);
  const std::span<double> to[3] = {writable(middle), writable(half_range), writable(sums)};
  {
    const py::gil_scoped_release nogil;
    local::loss_ranges(from, mixing, to[0], to[1], to[2]);
  }
  return py::make_tuple(middle, half_range, sums);
}

Array mixture(const Array& matrix, const Array& coefficients) {
  const Shape shape = shape_of(matrix);
  expect_size(coefficients, shape.rows, "coefficients");
  Array out(matrix.shape(1));
  const auto to = writable(out);
  const auto from = entries(matrix);
  const auto factors = entries(coefficients);
  {
    const py::gil_scoped_release nogil;
    local::mixture(from, factors, to);
  }
  return out;
}

py::tuple threshold_means(const Array& matrix, const Array& coefficients) {
  const Shape shape = shape_of(matrix);
  expect_size(coefficients, shape.rows, "coefficients");
  Array phi(matrix.shape(1));
  Array means(matrix.shape(0));
  const auto from = entries(matrix);
  const auto factors = entries(coefficients);
  const auto signs = writable(phi);
  const auto to = writable(means);
  {
    const py::gil_scoped_release nogil;
    local::threshold_means(from, factors, signs, to);
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
  local::threshold_question(named, local::PublicCoins(seed, round, slot), members, writable(out));
  return out;
}

Array query_means(const Array& matrix, const Array& phi) {
  const Shape shape = shape_of(matrix);
  expect_size(phi, shape.columns, "phi");
  Array means(matrix.shape(0));
  local::query_means(entries(matrix), entries(phi), writable(means));
  return means;
}

double bit_information(const Array& weights, const Array& means, double contrast) {
  expect_size(means, static_cast<std::size_t>(weights.size()), "means");
  return local::bit_information(entries(weights), entries(means), contrast);
}

// Statistics of the rows that do not depend on weights: kept where the context stays the same.
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

double response_information(const Array& weights, const Array& matrix, const Array& entropies,
                            double contraction) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(entropies, shape.rows, "entropies");
  return local::response_information(entries(weights), entries(matrix), entries(entropies),
                                     contraction);
}

double weighted_spread(const Array& weights, const Array& matrix, const Array& squares) {
  const Shape shape = shape_of(matrix);
  expect_size(weights, shape.rows, "weights");
  expect_size(squares, shape.rows, "squares");
  return local::weighted_spread(entries(weights), entries(matrix), entries(squares));
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
  local::leading_pair(entries(weights), first, second);
  local::adaptive_query(entries(weights), entries(matrix), first, second, writable(coefficients),
                        writable(means), scratch);
  return py::make_tuple(coefficients, means);
}

Array copied(std::span<const double> values) {
  Array out(static_cast<py::ssize_t>(values.size()));
  std::ranges::copy(values, out.mutable_data());
  return out;
}

void register_posterior(py::module_& m) {
  py::class_<Posterior>(m, "LocalPosterior")
      .def(py::init<std::size_t, double>(), "hypotheses"_a, "temperature"_a)
      .def_property_readonly("reports", &Posterior::reports)
      .def("log_likelihoods", [](const Posterior& self) { return copied(self.log_likelihoods()); })
      .def(
          "weights",
          [](const Posterior& self, double temperature) {
            Array out(static_cast<py::ssize_t>(self.hypotheses()));
            self.weights(temperature, writable(out));
            return out;
          },
          "temperature"_a)
      .def(
          "add_bits",
          [](Posterior& self, const Array& means, double contrast, const Integers& values) {
            const Shape shape = shape_of(means);
            expect_size(means, shape.rows * self.hypotheses(), "means");
            expect_rows(values, shape.rows);
            self.add_bits(entries(means), contrast, integers(values));
          },
          "means"_a.noconvert(), "contrast"_a, "values"_a.noconvert())
      .def(
          "add_subsets",
          [](Posterior& self, const Array& matrix, double excess, const Integers& values) {
            const Shape shape = shape_of(matrix);
            expect_size(matrix, self.hypotheses() * shape.columns, "matrix");
            const std::size_t size =
                values.ndim() == 2 ? static_cast<std::size_t>(values.shape(1)) : 0;
            expect_rows(values, size);
            self.add_subsets(entries(matrix), excess, size, integers(values));
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
      .def("losses", [](const Hedge& self) { return copied(self.losses()); })
      .def("weights", [](const Hedge& self) { return copied(self.weights()); })
      .def("raise_start", &Hedge::raise_start, "start"_a)
      .def(
          "add",
          [](Hedge& self, const Array& estimates) {
            const Shape shape = shape_of(estimates);
            expect_size(estimates, shape.rows * self.hypotheses(), "estimates");
            for (std::size_t i = 0; i < shape.rows; ++i) {
              self.add(entries(estimates).subspan(i * self.hypotheses(), self.hypotheses()));
            }
          },
          "estimates"_a.noconvert())
      .def(
          "add_coordinate",
          [](Hedge& self, std::size_t index, const Array& middle, double scale,
             const Integers& bits) {
            expect_size(middle, self.hypotheses(), "middle");
            expect_rows(bits, 1);
            self.add_coordinate(index, entries(middle), scale, integers(bits));
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
