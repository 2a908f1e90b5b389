#include "dpoco/frank_wolfe/frank_wolfe.hpp"

#include <limits>

#include "dpoco/core/statements.hpp"
#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/frank_wolfe/sufficient_statistics.hpp"
#include "registrars.hpp"
#include "rounds.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using frank_wolfe::FrankWolfe;
using frank_wolfe::FrankWolfeSettings;
using frank_wolfe::SufficientStatistics;
using frank_wolfe::VertexRule;
using mechanisms::SelectionNoise;

namespace {

SelectionNoise vertex_noise(const std::string& name) {
  if (name == "gumbel") return SelectionNoise::gumbel;
  if (name == "laplace") return SelectionNoise::laplace;
  throw std::invalid_argument("unknown selector");
}

std::shared_ptr<domains::VertexSet> make_vertex_set(const Array& vertices) {
  if (vertices.ndim() != 2) throw std::invalid_argument("vertices must be a matrix");
  return std::make_shared<domains::VertexSet>(
      Eigen::Map<const RowMatrix>(vertices.data(), vertices.shape(0), vertices.shape(1)));
}

// The numbers of a learner's mechanism.
struct Steps {
  Leaf leaf;
  FrankWolfeSettings settings;
  std::unique_ptr<VertexRule> rule;
};

Steps read_sum(std::shared_ptr<const domains::Domain> domain, const py::object& mechanism,
               const py::object& claim) {
  const auto [sum, leaf] = read_gaussian_sum(mechanism, read_leaf);
  if (sum.batches.growth != Growth::none) throw std::invalid_argument("batches must not grow");
  // The learner itself bounds leaves, so the sum needs no clipper.
  auto released = mechanisms::make_sum(sum.settings, read_claim(claim));
  return {.leaf = leaf,
          .settings = {.batch = sum.batches.first},
          .rule = frank_wolfe::make_sum_rule(std::move(domain), std::move(released))};
}

Steps read_selections(std::shared_ptr<const domains::Domain> domain, Fields from,
                      const py::object& claim) {
  from.expect_kind("selections");
  frank_wolfe::SelectionRuleSettings own{.noise = vertex_noise(from.read<std::string>("law")),
                                         .scale = from.read<double>("scale"),
                                         .exponent = from.read<double>("exponent"),
                                         .diameters = {}};
  FrankWolfeSettings settings;
  const Leaf leaf =
      read_whole(from.open("scores", "scores of vertices"), [&](Fields& scores) -> Leaf {
        scores.expect_kind("vertex_scores");
        const bool box = dynamic_cast<const domains::Box*>(domain.get()) != nullptr;
        if (scores.read<bool>("product") && !box) throw std::invalid_argument("not a box");
        own.diameters = {scores.read<double>("diameter_l1"), scores.read<double>("diameter_l2"),
                         scores.read<double>("diameter_max")};
        scores.read("batch", settings.batch);
        settings.published_weights = scores.read<std::uint64_t>("offset") == 1;
        const auto bound = scores.read<double>("leaf");
        return {.clipper = {domain->dimension(), bound, std::numeric_limits<double>::infinity(),
                            scores.read<double>("leaf_l2")},
                .slope = scores.read<double>("slope")};
      });
  settings.horizon = from.read<std::uint64_t>("rounds") * settings.batch;  // at least
  from.finish();
  return {.leaf = leaf,
          .settings = settings,
          .rule = frank_wolfe::make_selection_rule(std::move(domain), own, read_claim(claim))};
}

}  // namespace

std::unique_ptr<FrankWolfe> make_frank_wolfe(std::shared_ptr<const domains::Domain> domain,
                                             const losses::GlmLoss& loss,
                                             const py::object& mechanism, Fields tuning,
                                             const py::object& claim, const Array& start) {
  expect_size(start, static_cast<std::size_t>(domain->dimension()), "start");
  Fields from(mechanism, "a mechanism");
  const bool selects = from.has("scores");
  Steps steps = selects ? read_selections(domain, std::move(from), claim)
                        : read_sum(domain, mechanism, claim);
  FrankWolfeSettings& own = steps.settings;
  const std::uint64_t selected = own.horizon;
  tuning.read("horizon", own.horizon);
  if (own.batch < 1) throw std::invalid_argument("batch must be at least 1");
  if (!selects) {
    tuning.read("step_scale", own.step_scale);
    own.published_weights = tuning.read<std::uint64_t>("offset") == 1;
  } else if (own.horizon / own.batch != selected / own.batch) {
    throw std::invalid_argument("the selections are not those of so many rounds");
  }
  tuning.finish();
  frank_wolfe::LeafRule leaves(loss, steps.leaf.clipper, steps.leaf.slope);
  return std::make_unique<FrankWolfe>(std::move(domain), std::move(leaves), own,
                                      std::move(steps.rule), entries(start));
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
    summand.skip("rounding");  // a constant of the proof, for products in doubles
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

void register_statistics(py::module_& m) {
  py::class_<SufficientStatistics>(m, "SufficientStatistics", py::is_final())
      .def(py::init(&make_statistics))
      .def("add", &SufficientStatistics::add, py::call_guard<py::gil_scoped_release>())
      .def("release", array_getter<SufficientStatistics>(&SufficientStatistics::size,
                                                         &SufficientStatistics::release))
      .def("nonprivate_sum",
           array_getter<const SufficientStatistics>(&SufficientStatistics::size,
                                                    &SufficientStatistics::nonprivate_sum))
      .def("variates_drawn", [](const SufficientStatistics& self) { return variates_drawn(self); });
}

}  // namespace

void register_frank_wolfe(py::module_& m) {
  register_statistics(m);
  py::class_<domains::VertexSet, domains::Domain, std::shared_ptr<domains::VertexSet>>(
      m, "VertexSet", py::is_final())
      .def(py::init(&make_vertex_set));
  py::class_<FrankWolfe, oco::RecordLearner>(m, "FrankWolfe")
      .def(py::init([](std::shared_ptr<const domains::Domain> domain, const losses::GlmLoss& loss,
                       const py::object& mechanism, const py::object& tuning,
                       const py::object& claim, const Array& start) {
        return make_frank_wolfe(std::move(domain), loss, mechanism,
                                {tuning, "the tuning of a Frank-Wolfe learner"}, claim, start);
      }))
      .def("previous_decision",
           array_getter<const FrankWolfe>(&FrankWolfe::dimension, &FrankWolfe::previous_decision))
      .def("observe_gradients",
           [](FrankWolfe& self, std::uint64_t decided, Reals at_decision, Reals at_previous) {
             const auto d = static_cast<std::size_t>(self.dimension());
             expect_size(at_decision, d, "gradient at the decision");
             expect_size(at_previous, d, "gradient at the previous decision");
             self.observe_gradients(decided, at_decision, at_previous);
           })
      .def("leaf",
           [](const FrankWolfe& self, Reals at, Reals previous, Reals features, double label) {
             const auto d = static_cast<std::size_t>(self.dimension());
             expect_size(at, d, "at");
             expect_size(previous, d, "previous");
             expect_size(features, d, "features");
             Array out(self.dimension());
             self.leaf(at, previous, features, label, writable(out));
             return out;
           })
      .def("nonprivate_sum",
           [](const FrankWolfe& self) { return make_array(self.nonprivate_sum()); });
}

}  // namespace dpoco::bindings
