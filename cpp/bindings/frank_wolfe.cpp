#include "dpoco/frank_wolfe/tree_frank_wolfe.hpp"

#include "record_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using frank_wolfe::TreeFrankWolfe;
using frank_wolfe::TreeFrankWolfeSettings;
using frank_wolfe::Weights;

std::unique_ptr<TreeFrankWolfe> make_tree_frank_wolfe(std::shared_ptr<const domains::Domain> domain,
                                                      const losses::GlmLoss& loss,
                                                      const losses::RecordClipper& clipper,
                                                      const py::dict& settings,
                                                      const Array& start) {
  expect_size(start, static_cast<std::size_t>(domain->dimension()), "start");
  const TreeFrankWolfeSettings own{
      .horizon = settings["rounds"].cast<std::uint64_t>(),
      .batch = settings["batch"].cast<std::uint64_t>(),
      .step_scale = settings["step_scale"].cast<double>(),
      .leaf_scalar_bound = settings["leaf_scalar_bound"].cast<double>(),
      .weights =
          settings["published_weights"].cast<bool>() ? Weights::published : Weights::unbiased};
  // The leaves are bounded by the learner itself, so the sum needs no clipper of its own.
  return std::make_unique<TreeFrankWolfe>(std::move(domain), loss, clipper, own,
                                          make_continual_sum(settings["sum"], std::nullopt),
                                          data(start));
}

void register_frank_wolfe(py::module_& m) {
  py::class_<TreeFrankWolfe> learner(m, "TreeFrankWolfe");
  learner
      .def(py::init(&make_tree_frank_wolfe), "domain"_a, "loss"_a, "clipper"_a, "settings"_a,
           "start"_a.noconvert())
      .def("previous_decision",
           [](const TreeFrankWolfe& self) {
             return read_only(self.dimension(), [&](double* out) { self.previous_decision(out); });
           })
      .def(
          "observe_gradients",
          [](TreeFrankWolfe& self, std::uint64_t decided, const Array& at_decision,
             const Array& at_previous) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at_decision, d, "gradient at the decision");
            expect_size(at_previous, d, "gradient at the previous decision");
            self.observe_gradients(decided, data(at_decision), data(at_previous));
          },
          "decided"_a, "at_decision"_a.noconvert(), "at_previous"_a.noconvert())
      .def(
          "leaf",
          [](const TreeFrankWolfe& self, const Array& at, const Array& previous,
             const Array& features, double label) {
            const auto d = static_cast<std::size_t>(self.dimension());
            expect_size(at, d, "at");
            expect_size(previous, d, "previous");
            expect_size(features, d, "features");
            Array out(self.dimension());
            self.leaf(data(at), data(previous), data(features), label, out.mutable_data());
            return out;
          },
          "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(), "label"_a)
      .def("nonprivate_sum", [](const TreeFrankWolfe& self) {
        const std::vector<double>& sum = self.sum().nonprivate_sum();
        return read_only(self.dimension(),
                         [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
      });
  bind_record_learner(learner);
}

}  // namespace dpoco::bindings
