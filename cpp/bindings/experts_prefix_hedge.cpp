#include "dpoco/experts/prefix_hedge.hpp"

#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using experts::ExpertLearner;
using experts::LinearTransform;
using experts::PrefixHedge;

namespace {

std::unique_ptr<PrefixHedge> make_prefix_hedge(const py::object& settings,
                                               std::shared_ptr<LinearTransform> transform) {
  return read_whole({settings, "a learner of experts"}, [&](Fields& from) {
    const experts::ExpertSettings shared = read_experts(from);
    const auto rate = from.read<double>("learning_rate");
    // What a round adds is bounded by the learner itself, so the sum needs no clipper of its own.
    return std::make_unique<PrefixHedge>(
        shared, rate, make_continual_sum(from.open("sum", "a continual sum"), std::nullopt),
        std::move(transform));
  });
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
