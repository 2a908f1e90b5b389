#include "dpoco/frank_wolfe/tree_frank_wolfe.hpp"

#include "frank_wolfe_learner.hpp"
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
  learner.def(py::init(&make_tree_frank_wolfe), "domain"_a, "loss"_a, "clipper"_a, "settings"_a,
              "start"_a.noconvert());
  bind_leaf_learner(learner,
                    [](const TreeFrankWolfe& self) { return self.sum().nonprivate_sum(); });
}

}  // namespace dpoco::bindings
