#include "dpoco/experts/batch_share.hpp"

#include "dpoco/domains/floored_simplex.hpp"
#include "dpoco/mechanisms/coordinate_response.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using experts::BatchShare;
using experts::ExpertLearner;
using mechanisms::AdditiveLaw;

namespace {

std::unique_ptr<mechanisms::VectorRelease> make_release(const std::string& noise, double scale,
                                                        std::uint64_t experts, double grid = 0.0) {
  const auto dimension = static_cast<Index>(experts);
  if (noise == "coordinate_rr") {
    return mechanisms::make_coordinate_response(1.0 / scale, dimension);
  }
  const AdditiveLaw law = noise == "knorm"      ? AdditiveLaw::cube_exponential
                          : noise == "gaussian" ? AdditiveLaw::gaussian
                          : noise == "laplace"  ? AdditiveLaw::laplace
                                                : AdditiveLaw::none;
  if (law == AdditiveLaw::none && noise != "none") throw std::invalid_argument("unknown noise");
  return mechanisms::make_additive_noise(law, scale, dimension, grid);
}

std::unique_ptr<BatchShare> make_batch_share(const py::object& settings) {
  return read_whole({settings, "a batched learner of experts"}, [](Fields& from) {
    const auto noise = from.read<std::string>("noise");
    const experts::BatchShareSettings own{
        .problem = read_experts(from),
        .batch = from.read<std::uint64_t>("batch"),
        .learning_rate = from.read<double>("learning_rate"),
        .share_rate = from.read<double>("share_rate"),
        .floor = from.read<double>("floor"),
        // The common shift of a sum has no influence: without it, its changes are smaller in l2.
        .centered = noise == "gaussian",
        .grid = from.read<double>("grid")};
    auto release =
        make_release(noise, from.read<double>("noise_scale"), own.problem.experts, own.grid);
    return std::make_unique<BatchShare>(own, std::move(release), read_source(from));
  });
}

Array vector_of(const std::vector<double>& values) {
  return read_only(static_cast<py::ssize_t>(values.size()),
                   [&](double* out) { std::copy(values.begin(), values.end(), out); });
}

}  // namespace

void register_batch_share(py::module_& m) {
  py::class_<BatchShare, ExpertLearner>(m, "BatchShare")
      .def(py::init(&make_batch_share), "settings"_a)
      .def("weights",
           [](const BatchShare& self) {
             return read_only(static_cast<py::ssize_t>(self.experts()),
                              [&](double* out) { self.weights(out); });
           })
      .def("released", [](const BatchShare& self) { return vector_of(self.released()); })
      .def("nonprivate_input",
           [](const BatchShare& self) { return vector_of(self.nonprivate_input()); });
  m.def(
      "project_floored_simplex",
      [](const Array& log_v, double floor) {
        const auto n = static_cast<std::size_t>(log_v.size());
        if (n < 1 || !(floor >= 0.0) || !(floor * static_cast<double>(n) <= 1.0)) {
          throw std::invalid_argument("floor must be in [0, 1 / n]");
        }
        std::vector<double> scratch(n);
        return read_only(static_cast<py::ssize_t>(n), [&](double* out) {
          domains::project_floored_simplex(data(log_v), floor, n, scratch.data(), out);
        });
      },
      "log_v"_a.noconvert(), "floor"_a);
  m.def(
      "release_vector",
      [](random::Source& source, const std::string& noise, double scale, const Array& x,
         double grid) {
        Array out(x.size());
        make_release(noise, scale, static_cast<std::uint64_t>(x.size()), grid)
            ->release(data(x), source, out.mutable_data());
        return out;
      },
      "source"_a, "noise"_a, "scale"_a, "x"_a.noconvert(), "grid"_a = 0.0);
}

}  // namespace dpoco::bindings
