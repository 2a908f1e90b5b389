#include "dpoco/frank_wolfe/frank_wolfe.hpp"

#include <limits>

#include "dpoco/core/statements.hpp"
#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/frank_wolfe/sufficient_statistics.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using frank_wolfe::FrankWolfe;
using frank_wolfe::SufficientStatistics;
using frank_wolfe::VertexRule;
using mechanisms::SelectionNoise;
using mechanisms::VertexSelection;

namespace {

SelectionNoise vertex_noise(const std::string& name) {
  if (name == "gumbel") return SelectionNoise::gumbel;
  if (name == "laplace") return SelectionNoise::laplace;
  throw std::invalid_argument("unknown selector");
}

Array select(VertexSelection& self, const Array& direction, double rate, random::Source& source) {
  expect_size(direction, static_cast<std::size_t>(self.dimension()), "direction");
  Array out(self.dimension());
  self.select(data(direction), rate, source, out.mutable_data());
  return out;
}

std::shared_ptr<domains::VertexSet> make_vertex_set(const Array& vertices) {
  if (vertices.ndim() != 2) throw std::invalid_argument("vertices must be a matrix");
  return std::make_shared<domains::VertexSet>(
      Eigen::Map<const RowMatrix>(data(vertices), vertices.shape(0), vertices.shape(1)));
}

std::unique_ptr<VertexRule> make_rule(std::shared_ptr<const domains::Domain> domain, Fields& from) {
  if (from.has("sum")) {
    // The leaves are bounded by the learner itself, so the sum needs no clipper of its own.
    return frank_wolfe::make_sum_rule(
        std::move(domain), make_continual_sum(from.open("sum", "a continual sum"), std::nullopt));
  }
  return read_whole(from.open("selection", "a selection of vertices"), [&](Fields& own) {
    const frank_wolfe::SelectionRuleSettings settings{
        .noise = vertex_noise(own.read<std::string>("selector")),
        .scale = own.read<double>("scale"),
        .exponent = own.read<double>("exponent"),
        .diameters = {own.read<double>("diameter_l1"), own.read<double>("diameter_l2"),
                      own.read<double>("diameter_linf")}};
    return frank_wolfe::make_selection_rule(std::move(domain), settings, read_source(own));
  });
}

}  // namespace

std::unique_ptr<FrankWolfe> make_frank_wolfe(std::shared_ptr<const domains::Domain> domain,
                                             const losses::GlmLoss& loss,
                                             const losses::RecordClipper& clipper, Fields from,
                                             const Array& start) {
  expect_size(start, static_cast<std::size_t>(domain->dimension()), "start");
  return read_whole(std::move(from), [&](Fields& own) {
    const frank_wolfe::FrankWolfeSettings settings{
        .horizon = own.read<std::uint64_t>("rounds"),
        .batch = own.read<std::uint64_t>("batch"),
        .step_scale = own.read<double>("step_scale"),
        .published_weights = own.read<bool>("published_weights")};
    frank_wolfe::LeafRule leaves(loss, clipper, own.read<double>("leaf_scalar_bound"));
    auto rule = make_rule(domain, own);
    return std::make_unique<FrankWolfe>(std::move(domain), std::move(leaves), settings,
                                        std::move(rule), data(start));
  });
}

namespace {

std::unique_ptr<SufficientStatistics> make_statistics(const losses::GlmLoss& loss,
                                                      const py::object& mechanism,
                                                      const py::object& claim) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double label = std::max(loss.clip_label(kLargest), -loss.clip_label(-kLargest));
  frank_wolfe::StatisticsSettings settings;
  const auto [sum, clipper] = read_gaussian_sum(mechanism, [&](Fields& summand) {
    summand.expect_kind("second_moments");
    if (summand.read<std::uint64_t>("arms") != 1) throw std::invalid_argument("a fit has no arms");
    refuse_smaller(summand.read<double>("label"), label, "the bound on labels");
    summand.read("weight", settings.weight);
    summand.skip("rounding");  // a factor of the proof, for products in doubles
    return read_features(summand);
  });
  if (sum.settings.horizon != 1 || sum.settings.order != 2.0 || sum.settings.lattice.grid != 0.0 ||
      sum.batches.growth != Growth::none) {
    throw std::invalid_argument("a fit has one release, with Gaussian noise in doubles");
  }
  settings.records = sum.batches.first;
  settings.size = static_cast<std::uint64_t>(sum.settings.dimension);
  settings.noise_scale = sum.settings.scale;
  return std::make_unique<SufficientStatistics>(clipper, loss, settings, read_claim(claim));
}

std::span<const double> entries(const Array& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

void register_statistics(py::module_& m) {
  py::class_<SufficientStatistics>(m, "SufficientStatistics", py::is_final())
      .def(py::init(&make_statistics), "loss"_a, "mechanism"_a, "claim"_a)
      .def(
          "add",
          [](SufficientStatistics& self, const Array& features, const Array& labels) {
            const auto x = entries(features), y = entries(labels);
            const py::gil_scoped_release unlocked;
            self.add(x, y);
          },
          "features"_a.noconvert(), "labels"_a.noconvert())
      .def("release",
           [](SufficientStatistics& self) {
             const std::size_t n = self.size();
             return read_only(static_cast<py::ssize_t>(n), [&](double* out) {
               self.release({out, n});
             });
           })
      .def("nonprivate_sum",
           [](const SufficientStatistics& self) {
             const std::size_t n = self.size();
             return read_only(static_cast<py::ssize_t>(n), [&](double* out) {
               self.nonprivate_sum({out, n});
             });
           })
      .def("variates_drawn", [](const SufficientStatistics& self) {
        std::vector<std::uint64_t> positions;
        for (unsigned kind = 0; kind < random::kVariates; ++kind) {
          positions.push_back(self.source().position(static_cast<random::Variate>(kind)));
        }
        return positions;
      });
}

}  // namespace

void register_frank_wolfe(py::module_& m) {
  register_statistics(m);
  py::class_<domains::VertexSet, domains::Domain, std::shared_ptr<domains::VertexSet>>(
      m, "VertexSet", py::is_final())
      .def(py::init(&make_vertex_set), "vertices"_a.noconvert());
  py::class_<VertexSelection>(m, "VertexSelection")
      .def(py::init([](std::shared_ptr<const domains::Domain> domain, const std::string& selector) {
             return mechanisms::make_vertex_selection(std::move(domain), vertex_noise(selector));
           }),
           "domain"_a, "selector"_a)
      .def("select", &select, "direction"_a.noconvert(), "rate"_a, "source"_a);
  py::class_<FrankWolfe, oco::RecordLearner>(m, "FrankWolfe")
      .def(py::init([](std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
                       const losses::RecordClipper& clipper, const py::object& settings,
                       const Array& start) {
             return make_frank_wolfe(std::move(domain), loss, clipper,
                                     {settings, "a Frank-Wolfe learner"}, start);
           }),
           "domain"_a, "loss"_a, "clipper"_a, "settings"_a, "start"_a.noconvert())
      .def("previous_decision",
           [](const FrankWolfe& self) {
             return read_only(self.dimension(), [&](double* out) { self.previous_decision(out); });
           })
      .def(
          "observe_gradients",
          [](FrankWolfe& self, std::uint64_t decided, const Array& at_decision,
             const Array& at_previous) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at_decision, d, "gradient at the decision");
            expect_size(at_previous, d, "gradient at the previous decision");
            self.observe_gradients(decided, data(at_decision), data(at_previous));
          },
          "decided"_a, "at_decision"_a.noconvert(), "at_previous"_a.noconvert())
      .def(
          "leaf",
          [](const FrankWolfe& self, const Array& at, const Array& previous, const Array& features,
             double label) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at, d, "at");
            expect_size(previous, d, "previous");
            expect_size(features, d, "features");
            Array out(self.dimension());
            self.leaf(data(at), data(previous), data(features), label, out.mutable_data());
            return out;
          },
          "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(), "label"_a)
      .def("nonprivate_sum", [](const FrankWolfe& self) {
        const std::vector<double> values = self.nonprivate_sum();
        return read_only(self.dimension(),
                         [&](double* out) { std::copy(values.begin(), values.end(), out); });
      });
}

}  // namespace dpoco::bindings
