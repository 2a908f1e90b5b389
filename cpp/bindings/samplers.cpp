#include "dpoco/domains/body.hpp"
#include "dpoco/samplers/coordinate_gibbs.hpp"
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

// Writes a draw to each row of `out`, in the domain's own coordinates.
void fill_truncated_gaussian(Source& source, const std::shared_ptr<Domain>& domain, Reals mean,
                             double scale, Array& out) {
  TruncatedGaussian law(Body::of(domain, false));
  const auto d = static_cast<std::size_t>(domain->dimension());
  expect_size(mean, d, "mean");
  if (out.ndim() != 2 || static_cast<std::size_t>(out.shape(1)) != d) {
    throw std::invalid_argument("out has the wrong number of columns");
  }
  const std::span<double> to = writable(out);
  const py::gil_scoped_release nogil;  // dpoco.random.Source is locked itself
  std::vector<double> centre(static_cast<std::size_t>(law.body().dimension()));
  std::vector<double> draw(centre.size());
  law.body().coordinates(mean, centre);
  for (std::size_t i = 0; i < to.size(); i += d) {
    law.sample(source, centre, scale, draw);
    law.body().embed(draw, to.subspan(i, d));
  }
}

double log_gaussian_mass(const std::shared_ptr<Domain>& domain, Reals mean, double scale) {
  const TruncatedGaussian law(Body::of(domain, false));
  if (!law.has_log_mass()) throw std::invalid_argument("domain must be a box or a Euclidean ball");
  expect_size(mean, static_cast<std::size_t>(domain->dimension()), "mean");
  std::vector<double> centre(static_cast<std::size_t>(law.body().dimension()));
  law.body().coordinates(mean, centre);
  return law.log_mass(centre, scale);
}

void fill_coordinate_gibbs(Source& source, Reals precision, Reals mean, Reals lower, Reals upper,
                           Reals start, std::uint64_t sweeps, Array& out) {
  const std::size_t n = mean.size();
  expect_size(precision, n * n, "precision");
  expect_size(start, n, "start");
  if (out.ndim() != 2 || static_cast<std::size_t>(out.shape(1)) != n) {
    throw std::invalid_argument("out has the wrong number of columns");
  }
  CoordinateGibbs chain(as_matrix(precision, static_cast<Index>(n)), as_vector(mean),
                        as_vector(lower), as_vector(upper));
  chain.restart(start);
  const std::span<double> to = writable(out);
  const py::gil_scoped_release nogil;
  for (std::size_t i = 0; i < to.size(); i += n) {
    for (std::uint64_t k = 0; k < sweeps; ++k) chain.sweep(source);
    chain.current(to.subspan(i, n));
  }
}

}  // namespace

void register_samplers(py::module_& m) {
  m.def("fill_truncated_gaussian", &fill_truncated_gaussian);
  m.def("log_gaussian_mass", &log_gaussian_mass);
  m.def("fill_coordinate_gibbs", &fill_coordinate_gibbs);
  m.def("fill_truncated_normal",
        [](Source& source, double mean, double scale, double low, double high, RealsOut out) {
          const py::gil_scoped_release nogil;
          for (double& each : out) {
            each = samplers::truncated_normal(source, mean, scale, low, high);
          }
        });
}

}  // namespace dpoco::bindings
