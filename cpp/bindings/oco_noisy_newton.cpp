#include "dpoco/oco/noisy_newton.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::NoisyNewton;
using oco::NoisyNewtonSettings;

namespace {

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

Array leaf(const NoisyNewton& self, const Array& at, const Array&, const Array& features,
           double label) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(at, d, "at");
  expect_size(features, d, "features");
  Array out(self.sum().dimension());
  self.leaf(data(at), data(features), label, out.mutable_data());
  return out;
}

}  // namespace

void register_noisy_newton(py::module_& m) {
  py::class_<NoisyNewton, oco::RecordLearner>(m, "NoisyNewton")
      .def(py::init(&make_noisy_newton), "domain"_a, "loss"_a, "clipper"_a, "settings"_a)
      // The previous decision is there for the audit, which calls every learner alike.
      .def("leaf", &leaf, "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(),
           "label"_a)
      .def("nonprivate_sum", [](const NoisyNewton& self) {
        const std::vector<double>& sum = self.sum().nonprivate_sum();
        return read_only(self.sum().dimension(),
                         [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
      });
}

}  // namespace dpoco::bindings
