#include "dpoco/experts/batch_share.hpp"

#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using experts::BatchShare;
using experts::ExpertLearner;
using mechanisms::AdditiveLaw;

namespace {

// Makes the release of a vector by a law of batch_release; with scale 0, of the vector itself.
std::unique_ptr<mechanisms::VectorRelease> make_release(const std::string& law, double scale,
                                                        std::uint64_t experts, double grid = 0.0) {
  const auto dimension = static_cast<Index>(experts);
  if (scale == 0.0) return mechanisms::make_additive_noise(AdditiveLaw::none, 0.0, dimension, grid);
  const AdditiveLaw added = law == "knorm"      ? AdditiveLaw::cube_exponential
                            : law == "gaussian" ? AdditiveLaw::gaussian
                            : law == "laplace"  ? AdditiveLaw::laplace
                                                : AdditiveLaw::none;
  if (added == AdditiveLaw::none) throw std::invalid_argument("unknown law");
  return mechanisms::make_additive_noise(added, scale, dimension, grid);
}

std::unique_ptr<BatchShare> make_batch_share(const py::object& mechanism, const py::object& problem,
                                             std::uint64_t batch, double learning_rate,
                                             double share_rate, double floor,
                                             const py::object& claim) {
  experts::BatchShareSettings own{.problem = read_experts(problem),
                                  .batch = std::max<std::uint64_t>(batch, 1),
                                  .learning_rate = learning_rate,
                                  .share_rate = share_rate,
                                  .floor = floor};
  std::string law = "knorm";
  double scale = 0.0;
  const bool alone = own.problem.experts == 1 || own.problem.horizon <= own.batch;
  if (!read_nothing(mechanism, alone)) {
    Fields from(mechanism, "batch_release");
    from.expect_kind("batch_release");
    from.read("law", law);
    from.read("scale", scale);
    from.read("grid", own.grid);
    // A common shift of the sum changes no weight. Without it, changes of the sum are smaller in
    // l2.
    own.centered = law == "gaussian" && scale > 0.0;
    if (from.read<std::uint64_t>("experts") != own.problem.experts ||
        from.read<std::uint64_t>("batch") != batch) {
      throw std::invalid_argument("the release is of other sums");
    }
    from.finish();
  }
  auto release = make_release(law, scale, own.problem.experts, own.grid);
  return std::make_unique<BatchShare>(own, std::move(release), read_claim(claim));
}

}  // namespace

void register_batch_share(py::module_& m) {
  py::class_<BatchShare, ExpertLearner>(m, "BatchShare")
      .def(py::init(&make_batch_share))
      .def("weights", array_getter<const BatchShare>(&BatchShare::experts, &BatchShare::weights))
      .def("released", [](const BatchShare& self) { return make_array(self.released()); })
      .def("nonprivate_input",
           [](const BatchShare& self) { return make_array(self.nonprivate_input()); });
}

}  // namespace dpoco::bindings
