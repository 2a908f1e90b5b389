#include "dpoco/oco/noisy_ftrl.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::NoisyFtrl;
using oco::NoisyFtrlSettings;
using oco::Statistics;

namespace {

std::unique_ptr<NoisyFtrl> make_noisy_ftrl(std::shared_ptr<const domains::Domain> domain,
                                           const losses::GlmLoss& loss,
                                           const losses::RecordClipper& clipper,
                                           const py::dict& settings) {
  const NoisyFtrlSettings own{.horizon = settings["rounds"].cast<std::uint64_t>(),
                              .batch = settings["batch"].cast<std::uint64_t>(),
                              .step_size = settings["step_size"].cast<double>(),
                              .scalar_bound = settings["scalar_bound"].cast<double>(),
                              .vector_scale = settings["vector_scale"].cast<double>(),
                              .domain_radius = settings["domain_radius"].cast<double>(),
                              .statistics = settings["quadratic"].cast<bool>()
                                                ? Statistics::quadratic
                                                : Statistics::gradient};
  // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
  return std::make_unique<NoisyFtrl>(std::move(domain), loss, clipper, own,
                                     make_continual_sum(settings["sum"], std::nullopt));
}

Array leaf(const NoisyFtrl& self, const Array& at, const Array&, const Array& features,
           double label) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(at, d, "at");
  expect_size(features, d, "features");
  Array out(self.sum().dimension());
  self.leaf(data(at), data(features), label, out.mutable_data());
  return out;
}

}  // namespace

void register_noisy_ftrl(py::module_& m) {
  py::class_<NoisyFtrl, oco::RecordLearner>(m, "NoisyFtrl")
      .def(py::init(&make_noisy_ftrl), "domain"_a, "loss"_a, "clipper"_a, "settings"_a)
      // The previous decision is there for the audit, which calls every learner alike.
      .def("leaf", &leaf, "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(),
           "label"_a)
      .def("nonprivate_sum", [](const NoisyFtrl& self) {
        const std::vector<double>& sum = self.sum().nonprivate_sum();
        return read_only(self.sum().dimension(),
                         [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
      });
}

}  // namespace dpoco::bindings
