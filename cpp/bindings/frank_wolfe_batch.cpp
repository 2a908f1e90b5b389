#include <utility>
#include <vector>

#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using frank_wolfe::BatchFit;
using frank_wolfe::BatchProblem;
using frank_wolfe::BatchRecords;

namespace {

using DomainPointer = std::shared_ptr<const domains::Domain>;

template <class T>
T entry(const py::dict& settings, const char* name) {
  return settings[name].cast<T>();
}

BatchProblem problem_of(DomainPointer domain, const losses::GlmLoss& loss,
                        const losses::RecordClipper& clipper, const Array& features,
                        const Array& labels, const py::dict& settings) {
  const auto d = static_cast<std::size_t>(domain->dimension());
  const auto start = entry<Array>(settings, "start");
  const auto count = static_cast<std::size_t>(labels.size());
  expect_size(start, d, "start");
  expect_size(features, count * d, "features");
  if (clipper.dimension() != domain->dimension()) {
    throw std::invalid_argument("the clipper has the wrong dimension");
  }
  BatchRecords records(clipper, loss, entry<double>(settings, "derivative_bound"), count,
                       data(features), data(labels));
  return {std::move(domain), std::move(records),
          make_source(entry<py::bytes>(settings, "key"), entry<std::uint64_t>(settings, "stream")),
          std::vector<double>(data(start), data(start) + d)};
}

std::unique_ptr<BatchFit> fit_of(const std::string& method, BatchProblem problem,
                                 const py::dict& settings) {
  if (method == "noisy_sgd") {
    return make_noisy_sgd(
        std::move(problem),
        {entry<std::uint64_t>(settings, "steps"), entry<double>(settings, "step_size"),
         entry<double>(settings, "noise_scale"), entry<double>(settings, "grid")});
  }
  if (method == "noisy_frank_wolfe") {
    return make_noisy_frank_wolfe(
        std::move(problem),
        {entry<std::uint64_t>(settings, "first_batch"), entry<std::uint64_t>(settings, "batch"),
         entry<std::uint64_t>(settings, "steps"), entry<double>(settings, "step_size"),
         entry<double>(settings, "difference_bound"), entry<double>(settings, "first_scale"),
         entry<double>(settings, "later_scale"), entry<double>(settings, "first_grid"),
         entry<double>(settings, "later_grid")});
  }
  const auto rows = entry<std::vector<py::tuple>>(settings, "phases");
  const auto grids = entry<std::vector<double>>(settings, "grids");
  if (grids.size() != rows.size()) throw std::invalid_argument("each phase has a grid");
  if (method == "phased_sgd") {
    std::vector<frank_wolfe::SgdPhase> phases;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const py::tuple& row = rows[i];
      phases.push_back(
          {row[0].cast<std::uint64_t>(), row[1].cast<double>(), row[2].cast<double>(), grids[i]});
    }
    return make_phased_sgd(std::move(problem), std::move(phases));
  }
  std::vector<frank_wolfe::MirrorPhase> phases;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const py::tuple& row = rows[i];
    phases.push_back({row[0].cast<std::uint64_t>(), row[1].cast<double>(), row[2].cast<double>(),
                      row[3].cast<double>(), grids[i]});
  }
  return make_localized_mirror_descent(std::move(problem), entry<double>(settings, "p"),
                                       entry<double>(settings, "radius"),
                                       entry<std::uint64_t>(settings, "steps"), std::move(phases));
}

}  // namespace

void register_batch_fits(py::module_& m) {
  py::class_<BatchFit>(m, "BatchFit", py::is_final())
      .def(py::init([](const std::string& method, DomainPointer domain, const losses::GlmLoss& loss,
                       const losses::RecordClipper& clipper, const Array& features,
                       const Array& labels, const py::dict& settings) {
             return fit_of(method,
                           problem_of(std::move(domain), loss, clipper, features, labels, settings),
                           settings);
           }),
           "method"_a, "domain"_a, "loss"_a, "clipper"_a, "features"_a.noconvert(),
           "labels"_a.noconvert(), "settings"_a)
      .def_property_readonly("units", &BatchFit::units)
      .def_property_readonly("completed", &BatchFit::completed)
      .def("advance", &BatchFit::advance, "count"_a, py::call_guard<py::gil_scoped_release>())
      .def("result",
           [](const BatchFit& self) {
             return read_only(static_cast<py::ssize_t>(self.dimension()),
                              [&](double* out) { self.result(out); });
           })
      .def(
          "nonprivate_release",
          [](const BatchFit& self, std::uint64_t k, const Array& at, const Array& previous) {
            expect_size(at, self.dimension(), "at");
            expect_size(previous, self.dimension(), "previous");
            return read_only(static_cast<py::ssize_t>(self.dimension()), [&](double* out) {
              self.nonprivate_release(k, data(at), data(previous), out);
            });
          },
          "k"_a, "at"_a.noconvert(), "previous"_a.noconvert())
      .def("variates_drawn", [](const BatchFit& self) {
        std::vector<std::uint64_t> positions;
        for (unsigned kind = 0; kind < random::kVariates; ++kind) {
          positions.push_back(self.source().position(static_cast<random::Variate>(kind)));
        }
        return positions;
      });
}

}  // namespace dpoco::bindings
