#include "dpoco/frank_wolfe/tree_frank_wolfe.hpp"

#include "registrars.hpp"

namespace dpoco::bindings {

using frank_wolfe::TreeFrankWolfe;
using frank_wolfe::TreeFrankWolfeSettings;
using frank_wolfe::Weights;

namespace {

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

double* data_or_null(const py::object& array, std::size_t size, const char* name) {
  if (array.is_none()) return nullptr;
  auto out = array.cast<Array>();
  expect_size(out, size, name);
  return out.mutable_data();
}

void run(TreeFrankWolfe& self, const Array& features, const py::object& labels, Array& losses,
         const py::object& decisions, py::array_t<std::uint8_t>& changed) {
  const auto d = static_cast<std::size_t>(self.dimension());
  const auto rounds = static_cast<std::size_t>(losses.size());
  expect_size(features, rounds * d, "features");
  const double* label_data = nullptr;
  if (!labels.is_none()) {
    const auto array = labels.cast<Array>();
    expect_size(array, rounds, "labels");
    label_data = data(array);
  }
  double* decision_data = data_or_null(decisions, rounds * d, "decisions");
  if (static_cast<std::size_t>(changed.size()) != rounds) {
    throw std::invalid_argument("changed has the wrong number of entries");
  }
  const double* feature_data = data(features);
  double* loss_data = losses.mutable_data();
  std::uint8_t* changed_data = changed.mutable_data();
  const auto entered = self.enter();   // while the interpreter lock still orders the threads
  const py::gil_scoped_release nogil;  // no Python object is touched below
  self.run(entered, feature_data, label_data, rounds, loss_data, decision_data, changed_data);
}

}  // namespace

void register_frank_wolfe(py::module_& m) {
  py::class_<TreeFrankWolfe>(m, "TreeFrankWolfe")
      .def(py::init(&make_tree_frank_wolfe), "domain"_a, "loss"_a, "clipper"_a, "settings"_a,
           "start"_a.noconvert())
      .def("decision",
           [](const TreeFrankWolfe& self) {
             return read_only(self.dimension(), [&](double* out) { self.decision(out); });
           })
      .def("previous_decision",
           [](const TreeFrankWolfe& self) {
             return read_only(self.dimension(), [&](double* out) { self.previous_decision(out); });
           })
      .def(
          "observe",
          [](TreeFrankWolfe& self, std::uint64_t decided, const Array& features, double label) {
            expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
            self.observe(decided, data(features), label);
          },
          "decided"_a, "features"_a.noconvert(), "label"_a)
      .def(
          "observe_gradient",
          [](TreeFrankWolfe& self, std::uint64_t decided, const Array& gradient) {
            expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
            self.observe_gradient(decided, data(gradient));
          },
          "decided"_a, "gradient"_a.noconvert())
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
      .def("run", &run, "features"_a.noconvert(), "labels"_a, "losses"_a.noconvert(), "decisions"_a,
           "changed"_a.noconvert())
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
      .def_property_readonly("round", &TreeFrankWolfe::round)
      .def("nonprivate_sum",
           [](const TreeFrankWolfe& self) {
             const std::vector<double>& sum = self.sum().nonprivate_sum();
             return read_only(self.dimension(),
                              [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
           })
      .def(
          "variates_drawn",
          [](const TreeFrankWolfe& self) {
            std::vector<std::uint64_t> positions;
            for (unsigned kind = 0; kind < random::kVariates; ++kind) {
              positions.push_back(self.sum().source().position(static_cast<random::Variate>(kind)));
            }
            return positions;
          })
      .def("check_process", [](const TreeFrankWolfe& self) { self.sum().source().check_process(); })
      .def("adopt", [](TreeFrankWolfe& self) { self.sum().source().adopt(); })
      .def("state", &state_of<TreeFrankWolfe>)
      .def("restore", &restore<TreeFrankWolfe>, "state"_a);
}

}  // namespace dpoco::bindings
