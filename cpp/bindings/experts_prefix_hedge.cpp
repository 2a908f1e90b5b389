#include "dpoco/experts/prefix_hedge.hpp"

#include "expert_learner.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::LinearTransform;
using experts::PrefixHedge;

namespace {

std::unique_ptr<PrefixHedge> make_prefix_hedge(const py::dict& settings,
                                               std::shared_ptr<LinearTransform> transform) {
  // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
  return std::make_unique<PrefixHedge>(
      expert_settings(settings), settings["learning_rate"].cast<double>(),
      make_continual_sum(settings["sum"], std::nullopt), std::move(transform));
}

}  // namespace

// Transforms are registered after it and derive from LinearTransform.
void register_prefix_hedge(py::module_& m) {
  py::class_<LinearTransform, std::shared_ptr<LinearTransform>>(m, "LinearTransform")
      .def_property_readonly("inputs", &LinearTransform::inputs)
      .def_property_readonly("outputs", &LinearTransform::outputs);
  py::class_<PrefixHedge, ExpertLearner>(m, "PrefixHedge")
      .def(py::init(&make_prefix_hedge), "settings"_a, "transform"_a = py::none())
      .def("weights",
           [](const PrefixHedge& self) {
             return read_only(static_cast<py::ssize_t>(self.experts()),
                              [&](double* out) { self.weights(out); });
           })
      .def(
          "leaf",
          [](PrefixHedge& self, const Array& losses) {
            expect_size(losses, self.experts(), "losses");
            Array out(self.sum().dimension());
            self.leaf(data(losses), out.mutable_data());
            return out;
          },
          "losses"_a.noconvert())
      .def("nonprivate_sum", [](const PrefixHedge& self) {
        const std::vector<double>& sum = self.sum().nonprivate_sum();
        return read_only(self.sum().dimension(),
                         [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
      });
}

}  // namespace dpoco::bindings
