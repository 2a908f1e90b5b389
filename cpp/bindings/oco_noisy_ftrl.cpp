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

void run(NoisyFtrl& self, const Array& features, const py::object& labels, Array& losses,
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
  double* decision_data = nullptr;
  if (!decisions.is_none()) {
    auto array = decisions.cast<Array>();
    expect_size(array, rounds * d, "decisions");
    decision_data = array.mutable_data();
  }
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
  py::class_<NoisyFtrl>(m, "NoisyFtrl")
      .def(py::init(&make_noisy_ftrl), "domain"_a, "loss"_a, "clipper"_a, "settings"_a)
      .def("decision",
           [](const NoisyFtrl& self) {
             return read_only(self.dimension(), [&](double* out) { self.decision(out); });
           })
      .def(
          "observe",
          [](NoisyFtrl& self, std::uint64_t decided, const Array& features, double label) {
            expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
            self.observe(decided, data(features), label);
          },
          "decided"_a, "features"_a.noconvert(), "label"_a)
      .def(
          "observe_gradient",
          [](NoisyFtrl& self, std::uint64_t decided, const Array& gradient) {
            expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
            self.observe_gradient(decided, data(gradient));
          },
          "decided"_a, "gradient"_a.noconvert())
      .def("run", &run, "features"_a.noconvert(), "labels"_a, "losses"_a.noconvert(), "decisions"_a,
           "changed"_a.noconvert())
      // The previous decision is there for the audit, which calls every learner alike.
      .def("leaf", &leaf, "at"_a.noconvert(), "previous"_a.noconvert(), "features"_a.noconvert(),
           "label"_a)
      .def_property_readonly("round", &NoisyFtrl::round)
      .def("nonprivate_sum",
           [](const NoisyFtrl& self) {
             const std::vector<double>& sum = self.sum().nonprivate_sum();
             return read_only(self.sum().dimension(),
                              [&](double* out) { std::copy(sum.begin(), sum.end(), out); });
           })
      .def(
          "variates_drawn",
          [](const NoisyFtrl& self) {
            std::vector<std::uint64_t> positions;
            for (unsigned kind = 0; kind < random::kVariates; ++kind) {
              positions.push_back(self.sum().source().position(static_cast<random::Variate>(kind)));
            }
            return positions;
          })
      .def("check_process", [](const NoisyFtrl& self) { self.sum().source().check_process(); })
      .def("adopt", [](NoisyFtrl& self) { self.sum().source().adopt(); })
      .def("state", &state_of<NoisyFtrl>)
      .def("restore", &restore<NoisyFtrl>, "state"_a);
}

}  // namespace dpoco::bindings
