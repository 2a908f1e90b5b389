#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "dpoco/core/statements.hpp"
#include "dpoco/frank_wolfe/batch_fit.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using frank_wolfe::BatchFit;
using frank_wolfe::BatchProblem;
using frank_wolfe::BatchRecords;

namespace {

using DomainPointer = std::shared_ptr<const domains::Domain>;

enum class Method {
  noisy_sgd,
  noisy_frank_wolfe,
  phased_sgd,
  localized_mirror_descent,
  sufficient_statistics
};

// What stated bounds on the vectors of records are held against.
struct Enforced {
  double derivative_bound = 0.0;
  double features_l2 = 0.0;
  double curvature = 0.0;
  double radius = 0.0;
};

BatchProblem problem_of(DomainPointer domain, const losses::GlmLoss& loss,
                        const losses::RecordClipper& clipper, const Array& features,
                        const Array& labels, const Enforced& enforced, Method method,
                        Fields& from) {
  const auto d = static_cast<std::size_t>(domain->dimension());
  const auto start = from.read<Array>("start");
  const auto count = static_cast<std::size_t>(labels.size());
  expect_size(start, d, "start");
  expect_size(features, count * d, "features");
  if (clipper.dimension() != domain->dimension()) {
    throw std::invalid_argument("the clipper has the wrong dimension");
  }
  if (method == Method::sufficient_statistics) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    const double label = std::max(loss.clip_label(kLargest), -loss.clip_label(-kLargest));
    refuse_smaller(from.read<double>("label"), label, "the bound on labels");
  } else {
    refuse_smaller(from.read<double>("bound"), enforced.derivative_bound * enforced.features_l2,
                   "the bound on a record's gradient");
  }
  BatchRecords records(clipper, loss, enforced.derivative_bound, count, data(features),
                       data(labels));
  return {std::move(domain), std::move(records), read_source(from),
          std::vector<double>(data(start), data(start) + d)};
}

frank_wolfe::NoisySgdSettings sgd_of(Fields& from, std::uint64_t records) {
  if (from.read<std::uint64_t>("records") != records) {
    throw std::invalid_argument("steps draw from another number of records");
  }
  return {.steps = from.read<std::uint64_t>("steps"),
          .step_size = from.read<double>("step_size"),
          .noise_scale = from.read<double>("noise_scale"),
          .grid = from.read<double>("grid")};
}

frank_wolfe::NoisyFrankWolfeSettings frank_wolfe_of(Fields& from, const Enforced& enforced) {
  const auto difference = from.read<double>("difference_bound");
  refuse_smaller(from.read<double>("later_bound"), difference * enforced.features_l2,
                 "the bound on a record's change of gradients");
  return {.first_batch = from.read<std::uint64_t>("first_batch"),
          .batch = from.read<std::uint64_t>("batch"),
          .steps = from.read<std::uint64_t>("steps"),
          .step_size = from.read<double>("step_size"),
          .difference_bound = difference,
          .first_scale = from.read<double>("first_scale"),
          .later_scale = from.read<double>("later_scale"),
          .first_grid = from.read<double>("first_grid"),
          .later_grid = from.read<double>("later_grid")};
}

// Rows of numbers, one a phase, and the grids of their noise.
template <class Phase, class Make>
std::vector<Phase> phases_of(Fields& from, std::size_t columns, Make make) {
  const auto rows = from.read<std::vector<py::tuple>>("phases");
  const auto grids = from.read<std::vector<double>>("grids");
  if (grids.size() != rows.size()) throw std::invalid_argument("each phase has a grid");
  std::vector<Phase> phases;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != columns) throw std::invalid_argument("a phase has other numbers");
    phases.push_back(make(rows[i], grids[i]));
  }
  return phases;
}

std::unique_ptr<BatchFit> fit_of(Method method, BatchProblem problem, const Enforced& enforced,
                                 Fields& from) {
  const double l2 = enforced.features_l2;
  switch (method) {
    case Method::noisy_sgd: {
      const auto settings = sgd_of(from, problem.records.count());
      return make_noisy_sgd(std::move(problem), settings);
    }
    case Method::noisy_frank_wolfe:
      return make_noisy_frank_wolfe(std::move(problem), frank_wolfe_of(from, enforced));
    case Method::phased_sgd:
      // Walks do not drift apart because steps are below 2 / smoothness, and rounding is in units
      // of the largest decision.
      refuse_smaller(from.read<double>("smoothness"), enforced.curvature * (l2 * l2),
                     "the smoothness of losses");
      refuse_smaller(from.read<double>("radius"), enforced.radius, "the largest decision");
      return make_phased_sgd(
          std::move(problem),
          phases_of<frank_wolfe::SgdPhase>(from, 3, [](const py::tuple& row, double grid) {
            return frank_wolfe::SgdPhase{.records = row[0].cast<std::uint64_t>(),
                                         .step_size = row[1].cast<double>(),
                                         .noise_scale = row[2].cast<double>(),
                                         .grid = grid};
          }));
    case Method::sufficient_statistics:
      return make_sufficient_statistics(std::move(problem),
                                        {.records = from.read<std::uint64_t>("records"),
                                         .size = from.read<std::uint64_t>("size"),
                                         .weight = from.read<double>("weight"),
                                         .noise_scale = from.read<double>("noise_scale")});
    case Method::localized_mirror_descent:
      break;
  }
  auto phases = phases_of<frank_wolfe::MirrorPhase>(from, 4, [](const py::tuple& row, double grid) {
    return frank_wolfe::MirrorPhase{.records = row[0].cast<std::uint64_t>(),
                                    .regularization = row[1].cast<double>(),
                                    .radius = row[2].cast<double>(),
                                    .noise_scale = row[3].cast<double>(),
                                    .grid = grid};
  });
  const auto p = from.read<double>("p");
  const auto radius = from.read<double>("radius");
  return make_localized_mirror_descent(std::move(problem), p, radius,
                                       from.read<std::uint64_t>("steps"), std::move(phases));
}

}  // namespace

void register_batch_fits(py::module_& m) {
  py::class_<BatchFit>(m, "BatchFit", py::is_final())
      .def(py::init([](DomainPointer domain, const losses::GlmLoss& loss,
                       const losses::RecordClipper& clipper, const Array& features,
                       const Array& labels, const py::object& settings) {
             return read_whole({settings, "a fit"}, [&](Fields& from) {
               const auto method = from.read_name<Method>(
                   "method", {{"noisy_sgd", Method::noisy_sgd},
                              {"noisy_frank_wolfe", Method::noisy_frank_wolfe},
                              {"phased_sgd", Method::phased_sgd},
                              {"localized_mirror_descent", Method::localized_mirror_descent},
                              {"sufficient_statistics", Method::sufficient_statistics}});
               const Enforced enforced{
                   .derivative_bound = from.read<double>("derivative_bound"),
                   .features_l2 = clipper.largest_l2(),
                   .curvature = loss.largest_curvature(),
                   .radius = method == Method::phased_sgd ? domain->max_norm(2.0) : 0.0};
               BatchProblem problem = problem_of(std::move(domain), loss, clipper, features, labels,
                                                 enforced, method, from);
               return fit_of(method, std::move(problem), enforced, from);
             });
           }),
           "domain"_a, "loss"_a, "clipper"_a, "features"_a.noconvert(), "labels"_a.noconvert(),
           "settings"_a)
      .def_property_readonly("units", &BatchFit::units)
      .def_property_readonly("completed", &BatchFit::completed)
      .def("advance", &BatchFit::advance, "count"_a, py::call_guard<py::gil_scoped_release>())
      .def("result",
           [](const BatchFit& self) {
             return read_only(static_cast<py::ssize_t>(self.released()),
                              [&](double* out) { self.result(out); });
           })
      .def(
          "nonprivate_release",
          [](const BatchFit& self, std::uint64_t k, const Array& at, const Array& previous) {
            expect_size(at, self.dimension(), "at");
            expect_size(previous, self.dimension(), "previous");
            return read_only(static_cast<py::ssize_t>(self.released()), [&](double* out) {
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
