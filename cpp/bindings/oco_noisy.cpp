#include "dpoco/oco/noisy_ftrl.hpp"

#include "dpoco/oco/noisy_newton.hpp"
#include "registrars.hpp"
#include "settings.hpp"

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

std::unique_ptr<NoisyFtrl> make_noisy_ftrl(std::shared_ptr<const domains::Domain> domain,
                                           const losses::GlmLoss& loss,
                                           const losses::RecordClipper& clipper,
                                           const py::object& settings) {
  return read_whole({settings, "a noisy leader"}, [&](Fields& from) {
    NoisyFtrlSettings own{.horizon = from.read<std::uint64_t>("rounds"),
                          .batches = read_batches(from)};
    if (from.read<bool>("quadratic")) {
      own.statistics = Statistics::quadratic;
      own.vector_scale = from.read<double>("vector_scale");
      own.domain_radius = from.read<double>("domain_radius");
      if (from.has("forgetting")) {
        own.forgetting = read_forgetting(from.open("forgetting", "damped sums"));
      } else {
        own.ridges = from.read<std::vector<double>>("ridges");
        own.shrinkage = from.read<double>("shrinkage");
      }
    } else {
      own.step_size = from.read<double>("step_size");
      own.scalar_bound = from.read<double>("scalar_bound");
    }
    // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
    return std::make_unique<NoisyFtrl>(
        std::move(domain), loss, clipper, own,
        make_continual_sum(from.open("sum", "a continual sum"), std::nullopt));
  });
}

std::unique_ptr<NoisyNewton> make_noisy_newton(std::shared_ptr<const domains::Domain> domain,
                                               const losses::GlmLoss& loss,
                                               const losses::RecordClipper& clipper,
                                               const py::object& settings) {
  return read_whole({settings, "noisy Newton steps"}, [&](Fields& from) {
    NoisyNewtonSettings own{.horizon = from.read<std::uint64_t>("rounds"),
                            .batches = read_batches(from),
                            .scalar_bound = from.read<double>("scalar_bound"),
                            .curvature_bound = from.read<double>("curvature_bound"),
                            .curvature_weight = from.read<double>("curvature_weight"),
                            .step_size = from.read<double>("step_size"),
                            .step_share = from.read<double>("step_share"),
                            .shrinkage = from.read<double>("shrinkage"),
                            .deviations = from.read<std::vector<double>>("deviations")};
    // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
    return std::make_unique<NoisyNewton>(
        std::move(domain), loss, clipper, std::move(own),
        make_continual_sum(from.open("sum", "a continual sum"), std::nullopt));
  });
}

// The previous decision is there for the audit, which calls every learner alike.
template <class Learner>
Array leaf(const Learner& self, const Array& at, const Array&, const Array& features,
           double label) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(at, d, "at");
  expect_size(features, d, "features");
  Array out(self.sum().dimension());
  self.leaf(data(at), data(features), label, out.mutable_data());
  return out;
}

template <class Learner>
Array nonprivate_sum(const Learner& self) {
  const std::vector<double>& sum = self.sum().nonprivate_sum();
  return read_only(self.sum().dimension(),
                   [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
}

// Rows of candidates: weight, estimated excess of its loss, deviation of the estimate.
Array choices(const NoisyFtrl& self) {
  const oco::ForgettingLeader* leader = self.forgetting();
  const std::size_t count = leader == nullptr ? 0 : leader->weights().size();
  Array out({count, std::size_t{3}});
  double* to = out.mutable_data();
  for (std::size_t a = 0; a < count; ++a) {
    *to++ = leader->weights()[a];
    *to++ = leader->excess()[a];
    *to++ = leader->deviations()[a];
  }
  return out;
}

}  // namespace

void register_noisy_ftrl(py::module_& m) {
  py::class_<NoisyFtrl, oco::RecordLearner>(m, "NoisyFtrl")
      .def(py::init(&make_noisy_ftrl), "domain"_a, "loss"_a, "clipper"_a, "settings"_a)
      .def("leaf", &leaf<NoisyFtrl>, "at"_a.noconvert(), "previous"_a.noconvert(),
           "features"_a.noconvert(), "label"_a)
      .def("nonprivate_sum", &nonprivate_sum<NoisyFtrl>)
      .def("choices", &choices);
}

void register_noisy_newton(py::module_& m) {
  py::class_<NoisyNewton, oco::RecordLearner>(m, "NoisyNewton")
      .def(py::init(&make_noisy_newton), "domain"_a, "loss"_a, "clipper"_a, "settings"_a)
      .def("leaf", &leaf<NoisyNewton>, "at"_a.noconvert(), "previous"_a.noconvert(),
           "features"_a.noconvert(), "label"_a)
      .def("nonprivate_sum", &nonprivate_sum<NoisyNewton>);
}

}  // namespace dpoco::bindings
