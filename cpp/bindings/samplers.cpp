#include "dpoco/domains/body.hpp"
#include "dpoco/samplers/coordinate_gibbs.hpp"
#include "dpoco/samplers/special.hpp"
#include "dpoco/samplers/truncated_gaussian.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using domains::Body;
using domains::Domain;
using random::Source;
using samplers::CoordinateGibbs;
using samplers::TruncatedGaussian;

namespace {

// Rows of `out` are draws, all in the domain's own coordinates.
void fill_truncated_gaussian(Source& source, const std::shared_ptr<Domain>& domain,
                             const Array& mean, double scale, Array& out) {
  TruncatedGaussian law(Body::of(domain, false));
  const auto d = static_cast<std::size_t>(domain->dimension());
  expect_size(mean, d, "mean");
  if (out.ndim() != 2 || static_cast<std::size_t>(out.shape(1)) != d) {
    throw std::invalid_argument("out has the wrong number of columns");
  }
  const std::span<const double> from = entries(mean);
  const std::span<double> to = writable(out);
  const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
  std::vector<double> centre(static_cast<std::size_t>(law.body().dimension()));
  std::vector<double> draw(centre.size());
  law.body().coordinates(from, centre);
  for (std::size_t i = 0; i < to.size(); i += d) {
    law.sample(source, centre, scale, draw);
    law.body().embed(draw, to.subspan(i, d));
  }
}

double log_gaussian_mass(const std::shared_ptr<Domain>& domain, const Array& mean, double scale) {
  const TruncatedGaussian law(Body::of(domain, false));
  if (!law.has_log_mass()) throw std::invalid_argument("domain must be a box or a Euclidean ball");
  expect_size(mean, static_cast<std::size_t>(domain->dimension()), "mean");
  std::vector<double> centre(static_cast<std::size_t>(law.body().dimension()));
  law.body().coordinates(entries(mean), centre);
  return law.log_mass(centre, scale);
}

void fill_coordinate_gibbs(Source& source, const Array& precision, const Array& mean,
                           const Array& lower, const Array& upper, const Array& start,
                           std::uint64_t sweeps, Array& out) {
  const auto n = static_cast<std::size_t>(mean.size());
  expect_size(precision, n * n, "precision");
  expect_size(start, n, "start");
  if (out.ndim() != 2 || out.shape(1) != mean.size()) {
    throw std::invalid_argument("out has the wrong number of columns");
  }
  CoordinateGibbs chain(as_matrix(entries(precision), mean.size()), as_vector(entries(mean)),
                        as_vector(entries(lower)), as_vector(entries(upper)));
  chain.restart(entries(start));
  const std::span<double> to = writable(out);
  const py::gil_scoped_release nogil;
  for (std::size_t i = 0; i < to.size(); i += n) {
    for (std::uint64_t k = 0; k < sweeps; ++k) chain.sweep(source);
    chain.current(to.subspan(i, n));
  }
}

// out_i = function(x_i); for tests and for callers in Python.
template <class Function>
Array map(const Array& x, Function function) {
  Array out(x.size());
  std::transform(data(x), data(x) + x.size(), out.mutable_data(), function);
  return out;
}

template <class Draw>
void repeat(Array& out, Draw draw) {
  double* to = out.mutable_data();
  const py::ssize_t n = out.size();
  const py::gil_scoped_release nogil;
  for (py::ssize_t i = 0; i < n; ++i) to[i] = draw();
}

}  // namespace

void register_samplers(py::module_& m) {
  m.def("fill_truncated_gaussian", &fill_truncated_gaussian, "source"_a, "domain"_a,
        "mean"_a.noconvert(), "scale"_a, "out"_a.noconvert());
  m.def("log_gaussian_mass", &log_gaussian_mass, "domain"_a, "mean"_a.noconvert(), "scale"_a);
  m.def("fill_coordinate_gibbs", &fill_coordinate_gibbs, "source"_a, "precision"_a.noconvert(),
        "mean"_a.noconvert(), "lower"_a.noconvert(), "upper"_a.noconvert(), "start"_a.noconvert(),
        "sweeps"_a, "out"_a.noconvert());
  m.def(
      "fill_truncated_normal",
      [](Source& source, double mean, double scale, double low, double high, Array& out) {
        repeat(out, [&] { return samplers::truncated_normal(source, mean, scale, low, high); });
      },
      "source"_a, "mean"_a, "scale"_a, "low"_a, "high"_a, "out"_a.noconvert());
  m.def(
      "fill_truncated_gamma",
      [](Source& source, double shape, double limit, Array& out) {
        repeat(out, [&] { return samplers::truncated_gamma(source, shape, limit); });
      },
      "source"_a, "shape"_a, "limit"_a, "out"_a.noconvert());
  m.def(
      "log_normal_cdf", [](const Array& x) { return map(x, &samplers::log_normal_cdf); },
      "x"_a.noconvert());
  m.def("log_normal_interval", &samplers::log_normal_interval, "low"_a, "high"_a);
  m.def("log_gamma", &samplers::log_gamma, "a"_a);
  m.def(
      "log_gamma_p",
      [](double a, const Array& x) {
        const samplers::IncompleteGamma gamma(a);
        return map(x, [&](double each) { return gamma(each).log_p; });
      },
      "a"_a, "x"_a.noconvert());
  m.def(
      "gamma_elasticity",
      [](double a, const Array& x) {
        const samplers::IncompleteGamma gamma(a);
        return map(x, [&](double each) { return gamma(each).elasticity; });
      },
      "a"_a, "x"_a.noconvert());
}

}  // namespace dpoco::bindings
