#include "dpoco/oco/noisy_ftrl.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dpoco/oco/noisy_newton.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::NoisyFtrl;
using oco::NoisyFtrlSettings;
using oco::NoisyNewton;
using oco::NoisyNewtonSettings;
using oco::Statistics;

namespace {

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
        its.read<double>("half_life");  // for people: `kept` follows from it
        return oco::ForgettingView{.kept = its.read<std::vector<double>>("kept"),
                                   .deviations = its.read<std::vector<double>>("deviations"),
                                   .covariances = its.read<std::vector<double>>("covariances")};
      }));
    }
    return own;
  });
}

// What a round adds is bounded by the learners themselves: their sums need no clipper.
mechanisms::ContinualSum make_sum(const GaussianSum& sum, const py::object& claim) {
  return mechanisms::make_sum(sum.settings, read_claim(claim));
}

// Bounds on what a round adds: a gradient's, or those of second moments, with a loss or without.
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
  summand.skip("rounding");  // a factor of the proof, for products in doubles
  Addition own{.leaf = {.clipper = read_features(summand)},
               .label = summand.read<double>("label"),
               .weight = summand.read<double>("weight")};
  if (with_loss) {
    summand.read("largest_loss", own.loss.largest);
    summand.read("loss_weight", own.loss.weight);
  }
  return own;
}

std::unique_ptr<NoisyFtrl> make_noisy_ftrl(std::shared_ptr<const domains::Domain> domain,
                                           losses::GlmLoss loss, const py::object& mechanism,
                                           const py::object& tuning, const py::object& claim) {
  const std::pair<GaussianSum, Addition> read = read_gaussian_sum(mechanism, read_addition);
  const GaussianSum& sum = read.first;
  const Addition& added = read.second;
  NoisyFtrlSettings own{
      .batches = sum.batches, .scalar_bound = added.leaf.slope, .running_loss = added.loss};
  read_whole({tuning, "the tuning of a leader"}, [&](Fields& from) {
    from.read("rounds", own.horizon);
    if (added.weight == 0.0) {
      from.read("step_size", own.step_size);
      return own.horizon;
    }
    own.statistics = Statistics::quadratic;
    own.vector_scale = added.weight;
    loss.label_low = -added.label;
    loss.label_high = added.label;
    from.read("domain_radius", own.domain_radius);
    if (own.running_loss.weight > 0.0) from.read("loss_kept", own.running_loss.kept);
    if (from.has("forgetting")) {
      own.forgetting = std::make_shared<const oco::ForgettingSettings>(
          read_forgetting(from.open("forgetting", "damped sums")));
    } else {
      from.read("ridges", own.ridges);
      from.read("shrinkage", own.shrinkage);
    }
    return own.horizon;
  });
  return std::make_unique<NoisyFtrl>(std::move(domain), loss, added.leaf.clipper, own,
                                     make_sum(sum, claim));
}

std::unique_ptr<NoisyNewton> make_noisy_newton(std::shared_ptr<const domains::Domain> domain,
                                               const losses::GlmLoss& loss,
                                               const py::object& mechanism,
                                               const py::object& tuning, const py::object& claim) {
  NoisyNewtonSettings own;
  const auto [sum, clipper] = read_gaussian_sum(mechanism, [&](Fields& summand) {
    summand.expect_kind("gradient_and_curvature");
    summand.read("slope", own.scalar_bound);
    summand.read("curvature", own.curvature_bound);
    summand.read("weight", own.curvature_weight);
    return read_features(summand);
  });
  own.batches = sum.batches;
  read_whole({tuning, "the tuning of Newton steps"}, [&](Fields& from) {
    from.read("rounds", own.horizon);
    from.read("step_size", own.step_size);
    from.read("step_share", own.step_share);
    from.read("shrinkage", own.shrinkage);
    from.read("deviations", own.deviations);
    if (from.has("kept")) from.read("kept", own.kept);
    return own.horizon;
  });
  return std::make_unique<NoisyNewton>(std::move(domain), loss, clipper, std::move(own),
                                       make_sum(sum, claim));
}

// Adds the leaves of records at a decision to totals, each in whole multiples of `grid`, a power of
// two. Integers add up to the same in any order. Each record is copied before it is looked at.
template <class Learner>
void tally(const Learner& self, Reals at, Reals features, Reals labels, double grid,
           std::span<std::int64_t> totals) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(at, d, "at");
  expect_size(features, labels.size() * d, "features");
  expect_size(totals, static_cast<std::size_t>(self.sum().dimension()), "totals");
  const py::gil_scoped_release nogil;  // no Python object is touched below
  std::vector<double> row(d), leaf(totals.size());
  for (std::size_t t = 0; t < labels.size(); ++t) {
    std::ranges::copy(features.subspan(t * d, d), row.begin());
    self.leaf(at, row, labels[t], leaf);
    for (std::size_t i = 0; i < leaf.size(); ++i) totals[i] += std::llrint(leaf[i] / grid);
  }
}

// Rows of candidates: weight, estimated excess of its loss, deviation of the estimate.
Array choices(const NoisyFtrl& self) {
  const oco::ForgettingLeader* leader = self.forgetting();
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

// What both have; the previous decision of a leaf is there for the audit, which calls every learner
// alike.
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
      .def("pushes", [](const Learner& self) {  // how many sums were released: public
        const auto entered = self.enter();
        return self.sum().round();
      });
}

}  // namespace

void register_noisy_ftrl(py::module_& m) {
  py::class_<NoisyFtrl, oco::RecordLearner> ftrl(m, "NoisyFtrl");
  ftrl.def(py::init(&make_noisy_ftrl))
      .def("choices", &choices)
      .def("released_loss", &NoisyFtrl::released_loss);
  bind_batches(ftrl);
}

void register_noisy_newton(py::module_& m) {
  py::class_<NoisyNewton, oco::RecordLearner> newton(m, "NoisyNewton");
  newton.def(py::init(&make_noisy_newton))
      .def("metric", [](const NoisyNewton& self) {  // entries of a symmetric matrix
        const auto entered = self.enter();
        return make_array(view(self.metric()));
      });
  bind_batches(newton);
}

}  // namespace dpoco::bindings
