#include "dpoco/oco/noisy_ftrl.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dpoco/oco/newton_rule.hpp"
#include "dpoco/oco/noisy_newton.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::NewtonRule;
using oco::NoisyFtrl;
using oco::NoisyFtrlSettings;
using oco::NoisyNewton;
using oco::NoisyNewtonSettings;
using oco::RidgeRule;
using oco::RidgeSettings;
using oco::Statistics;

namespace {

using DomainPointer = std::shared_ptr<const domains::Domain>;

oco::ForgettingSettings read_forgetting(Fields fields) {
  return read_whole(std::move(fields), [](Fields& from) {
    oco::ForgettingSettings own{.views = {},
                                .ridges = from.read<std::vector<double>>("ridges"),
                                .reference = from.read<std::size_t>("reference"),
                                .variance = from.read<double>("variance"),
                                .rates = from.read<std::vector<double>>("rates"),
                                .weights = from.read<std::vector<double>>("weights"),
                                .memory = from.read<std::vector<double>>("memory")};
    for (const py::handle view : from.read<py::tuple>("views")) {
      own.views.push_back(read_whole({view, "a damped sum"}, [](Fields& its) {
        its.read<double>("half_life");  // used for people; `kept` follows from it
        return oco::ForgettingView{.kept = its.read<std::vector<double>>("kept"),
                                   .deviations = its.read<std::vector<double>>("deviations"),
                                   .covariances = its.read<std::vector<double>>("covariances")};
      }));
    }
    return own;
  });
}

// The learners themselves bound what a round adds, so their sums need no clipper.
mechanisms::ContinualSum make_sum(const GaussianSum& sum, const py::object& claim) {
  return mechanisms::make_sum(sum.settings, read_claim(claim));
}

// Bounds of a round's summand: of a gradient, or of second moments with or without a loss.
struct Addition {
  Leaf leaf;
  double label = 0.0;
  double weight = 0.0;
  oco::RunningLoss loss = {};
};

Addition read_addition(Fields& summand) {
  const bool with_loss = summand.kind() == "moments_and_loss";
  if (!with_loss && summand.kind() != "second_moments") return {.leaf = read_leaf(summand)};
  if (summand.read<std::uint64_t>("arms") != 1) throw std::invalid_argument("a leader has no arms");
  summand.skip("rounding");  // a constant of the proof, for products in doubles
  Addition own{.leaf = {.clipper = read_features(summand)},
               .label = summand.read<double>("label"),
               .weight = summand.read<double>("weight")};
  if (with_loss) {
    summand.read("largest_loss", own.loss.largest);
    summand.read("loss_weight", own.loss.weight);
  }
  return own;
}

// These functions make rules from the fields of a tuning, except its rounds, which the engine
// reads.
std::unique_ptr<oco::DecisionRule> make_step(DomainPointer domain, Fields& tuning) {
  return std::make_unique<oco::ProjectedStep>(std::move(domain), tuning.read<double>("step_size"));
}

std::unique_ptr<oco::DecisionRule> make_ridge(DomainPointer domain, Fields& tuning,
                                              const Addition& added, std::uint64_t releases) {
  RidgeSettings own;
  own.vector_scale = added.weight;
  own.loss.weight = added.loss.weight;
  tuning.read("domain_radius", own.domain_radius);
  if (own.loss.weight > 0.0) tuning.read("loss_kept", own.loss.kept);
  if (tuning.has("forgetting")) {
    own.forgetting = read_forgetting(tuning.open("forgetting", "damped sums"));
  } else {
    tuning.read("ridges", own.ridges);
    tuning.read("shrinkage", own.shrinkage);
  }
  return std::make_unique<RidgeRule>(std::move(domain), releases, std::move(own));
}

std::unique_ptr<oco::DecisionRule> make_newton(DomainPointer domain, Fields& tuning,
                                               double curvature_weight,
                                               const mechanisms::ContinualSum& sum, bool single) {
  oco::NewtonSettings own;
  own.curvature_weight = curvature_weight;
  tuning.read("step_size", own.step_size);
  tuning.read("step_share", own.step_share);
  tuning.read("shrinkage", own.shrinkage);
  tuning.read("deviations", own.deviations);
  if (tuning.has("kept")) tuning.read("kept", own.kept);
  if (own.kept.empty() && single) throw std::invalid_argument("batches have to grow");
  return std::make_unique<NewtonRule>(std::move(domain), sum.horizon(), std::move(own));
}

std::unique_ptr<NoisyFtrl> make_noisy_ftrl(DomainPointer domain, losses::GlmLoss loss,
                                           const py::object& mechanism, const py::object& tuning,
                                           const py::object& claim) {
  const std::pair<GaussianSum, Addition> read = read_gaussian_sum(mechanism, read_addition);
  const Addition& added = read.second;
  NoisyFtrlSettings own{
      .batches = read.first.batches, .scalar_bound = added.leaf.slope, .running_loss = added.loss};
  if (added.weight != 0.0) {
    own.statistics = Statistics::quadratic;
    own.vector_scale = added.weight;
    loss.label_low = -added.label;
    loss.label_high = added.label;
  }
  mechanisms::ContinualSum sum = make_sum(read.first, claim);
  std::unique_ptr<oco::DecisionRule> rule =
      read_whole({tuning, "the tuning of a leader"}, [&](Fields& from) {
        from.read("rounds", own.horizon);
        return added.weight != 0.0 ? make_ridge(std::move(domain), from, added, sum.horizon())
                                   : make_step(std::move(domain), from);
      });
  return std::make_unique<NoisyFtrl>(loss, added.leaf.clipper, own, std::move(sum),
                                     std::move(rule));
}

std::unique_ptr<NoisyNewton> make_noisy_newton(DomainPointer domain, const losses::GlmLoss& loss,
                                               const py::object& mechanism,
                                               const py::object& tuning, const py::object& claim) {
  NoisyNewtonSettings own;
  const auto [read, clipper] = read_gaussian_sum(mechanism, [&](Fields& summand) {
    summand.expect_kind("gradient_and_curvature");
    summand.read("slope", own.scalar_bound);
    summand.read("curvature", own.curvature_bound);
    summand.read("weight", own.curvature_weight);
    return read_features(summand);
  });
  own.batches = read.batches;
  mechanisms::ContinualSum sum = make_sum(read, claim);
  std::unique_ptr<oco::DecisionRule> rule =
      read_whole({tuning, "the tuning of Newton steps"}, [&](Fields& from) {
        from.read("rounds", own.horizon);
        return make_newton(std::move(domain), from, own.curvature_weight, sum,
                           own.batches.single());
      });
  return std::make_unique<NoisyNewton>(loss, clipper, own, std::move(sum), std::move(rule));
}

// Adds the leaves of records at a decision to totals, each in whole multiples of `grid`, a power of
// two. Sums of integers do not depend on the order. Copies each record before reading it.
template <class Learner>
void tally(const Learner& self, Reals at, Reals features, Reals labels, double grid,
           std::span<std::int64_t> totals) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(at, d, "at");
  expect_size(features, labels.size() * d, "features");
  expect_size(totals, static_cast<std::size_t>(self.sum().dimension()), "totals");
  const py::gil_scoped_release nogil;  // no Python object is used below
  std::vector<double> row(d), leaf(totals.size());
  for (std::size_t t = 0; t < labels.size(); ++t) {
    std::ranges::copy(features.subspan(t * d, d), row.begin());
    self.leaf(at, row, labels[t], leaf);
    for (std::size_t i = 0; i < leaf.size(); ++i) totals[i] += std::llrint(leaf[i] / grid);
  }
}

// One row for each candidate: weight, estimated excess of its loss, deviation of the estimate.
Array choices(const NoisyFtrl& self) {
  const auto* rule = dynamic_cast<const RidgeRule*>(&self.rule());
  const oco::ForgettingLeader* leader = rule == nullptr ? nullptr : rule->forgetting();
  const std::size_t count = leader == nullptr ? 0 : leader->weights().size();
  Array out({count, std::size_t{3}});
  auto to = writable(out).begin();
  for (std::size_t a = 0; a < count; ++a) {
    *to++ = leader->weights()[a];
    *to++ = leader->excess()[a];
    *to++ = leader->deviations()[a];
  }
  return out;
}

double released_loss(const NoisyFtrl& self) {
  const auto* rule = dynamic_cast<const RidgeRule*>(&self.rule());
  return rule == nullptr ? 0.0 : rule->released_loss();
}

Array metric(const NoisyNewton& self) {  // entries of a symmetric matrix
  const auto entered = self.enter();
  return make_array(view(dynamic_cast<const NewtonRule&>(self.rule()).metric()));
}

// Methods of both learners. `leaf` ignores the previous decision, which the audit passes to every
// learner.
template <class Learner>
void bind_batches(py::class_<Learner, oco::RecordLearner>& learner) {
  learner
      .def("leaf",
           [](const Learner& self, Reals at, Reals, Reals features, double label) {
             const auto d = static_cast<std::size_t>(self.dimension());
             expect_size(at, d, "at");
             expect_size(features, d, "features");
             Array out(self.sum().dimension());
             self.leaf(at, features, label, writable(out));
             return out;
           })
      .def("observe_batch",
           [](Learner& self, std::uint64_t decided, Reals total, std::uint64_t rounds) {
             expect_size(total, static_cast<std::size_t>(self.sum().dimension()), "total");
             self.observe_batch(decided, total, rounds);
           })
      .def("tally", &tally<Learner>)
      .def("nonprivate_sum",
           [](const Learner& self) { return make_array(self.sum().nonprivate_sum()); })
      .def("pushes", [](const Learner& self) {  // the number of released sums: public
        const auto entered = self.enter();
        return self.sum().round();
      });
}

}  // namespace

void register_noisy_ftrl(py::module_& m) {
  py::class_<NoisyFtrl, oco::RecordLearner> ftrl(m, "NoisyFtrl");
  ftrl.def(py::init(&make_noisy_ftrl))
      .def("choices", &choices)
      .def("released_loss", &released_loss);
  bind_batches(ftrl);
}

void register_noisy_newton(py::module_& m) {
  py::class_<NoisyNewton, oco::RecordLearner> newton(m, "NoisyNewton");
  newton.def(py::init(&make_noisy_newton)).def("metric", &metric);
  bind_batches(newton);
}

}  // namespace dpoco::bindings
