#include "dpoco/oco/continuous_multiplicative_weights.hpp"

#include "loss_sums.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using oco::ContinuousMultiplicativeWeights;
using oco::ContinuousMultiplicativeWeightsSettings;
using oco::Coupling;
using Engine = ContinuousMultiplicativeWeights;

namespace {

Coupling coupling_from(const std::string& name) {
  if (name == "density_ratio") return Coupling::density_ratio;
  if (name == "dartboard") return Coupling::dartboard;
  if (name == "anchored") return Coupling::anchored;
  if (name == "scheduled") return Coupling::scheduled;
  if (name == "maximal") return Coupling::maximal;
  throw std::invalid_argument("unknown coupling");
}

// `losses`: see make_loss_sum. max_switches None: no cap. smoothness may be infinite.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::dict& losses, const py::dict& settings) {
  const auto real = [&](const char* name) { return settings[name].cast<double>(); };
  const auto count = [&](const char* name) { return settings[name].cast<std::uint64_t>(); };
  const py::object cap = settings["max_switches"];
  const ContinuousMultiplicativeWeightsSettings own{
      .rule = {.horizon = count("rounds"),
               .block = count("block"),
               .forced = real("forced_switch"),
               .max_switches =
                   cap.is_none() ? mechanisms::SwitchSettings::kNoCap : cap.cast<std::uint64_t>()},
      .coupling = coupling_from(settings["coupling"].cast<std::string>()),
      .gibbs = {.inverse_temperature = real("inverse_temperature"),
                .regularization = real("regularization"),
                .exact_only = settings["exact_only"].cast<bool>(),
                .tolerance = real("sampler_tolerance")},
      .clip_high = real("clip_high"),
      .clip_low = real("clip_low"),
      .factor_range = real("factor_range"),
      .anchors = count("anchors"),
      .lipschitz = real("lipschitz"),
      .clip_error = real("clip_error"),
      .smoothness = real("smoothness")};
  return std::make_unique<Engine>(
      make_loss_sum(std::move(domain), losses), own,
      make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>()));
}

double* data_or_null(const py::object& array, std::size_t size, const char* name) {
  if (array.is_none()) return nullptr;
  auto out = array.cast<Array>();
  expect_size(out, size, name);
  return out.mutable_data();
}

void run(Engine& self, const Array& features, const py::object& labels, Array& losses,
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

void observe_quadratic(Engine& self, std::uint64_t decided, const Array& matrix,
                       const Array& vector) {
  const auto d = static_cast<std::size_t>(self.dimension());
  expect_size(matrix, d * d, "matrix");
  expect_size(vector, d, "vector");
  self.observe_quadratic(decided, data(matrix), data(vector));
}

}  // namespace

void register_continuous_multiplicative_weights(py::module_& m) {
  py::class_<Engine>(m, "ContinuousMultiplicativeWeights")
      .def(py::init(&make_engine), "domain"_a, "losses"_a, "settings"_a)
      .def("decision",
           [](const Engine& self) {
             return read_only(self.dimension(), [&](double* out) { self.decision(out); });
           })
      .def(
          "observe",
          [](Engine& self, std::uint64_t decided, const Array& features, double label) {
            expect_size(features, static_cast<std::size_t>(self.dimension()), "features");
            self.observe(decided, data(features), label);
          },
          "decided"_a, "features"_a.noconvert(), "label"_a)
      .def(
          "observe_gradient",
          [](Engine& self, std::uint64_t decided, const Array& gradient) {
            expect_size(gradient, static_cast<std::size_t>(self.dimension()), "gradient");
            self.observe_gradient(decided, data(gradient));
          },
          "decided"_a, "gradient"_a.noconvert())
      .def("observe_quadratic", &observe_quadratic, "decided"_a, "matrix"_a.noconvert(),
           "vector"_a.noconvert())
      .def(
          "observe_custom",
          [](Engine& self, std::uint64_t decided, const py::object& loss) {
            self.observe_staged(decided, [&](losses::LossSum& sum) { stage_object(sum, loss); });
          },
          "decided"_a, "loss"_a)
      .def("run", &run, "features"_a.noconvert(), "labels"_a, "losses"_a.noconvert(), "decisions"_a,
           "changed"_a.noconvert())
      .def_property_readonly("round", &Engine::round)
      .def_property_readonly("horizon", &Engine::horizon)
      .def_property_readonly("switches", &Engine::switches)
      .def("nonprivate_log_factor", &Engine::nonprivate_log_factor)
      .def("nonprivate_log_change", &Engine::nonprivate_log_change)
      .def("nonprivate_point",
           [](const Engine& self) {
             return read_only(self.intrinsic_dimension(),
                              [&](double* out) { self.nonprivate_point(out); });
           })
      .def("nonprivate_anchor_mean",
           [](const Engine& self) {
             return read_only(self.intrinsic_dimension(),
                              [&](double* out) { self.nonprivate_anchor_mean(out); });
           })
      .def("variates_drawn",
           [](const Engine& self) {
             std::vector<std::uint64_t> positions;
             for (unsigned kind = 0; kind < random::kVariates; ++kind) {
               positions.push_back(self.source().position(static_cast<random::Variate>(kind)));
             }
             return positions;
           })
      .def("check_process", [](const Engine& self) { self.source().check_process(); })
      .def("adopt", [](Engine& self) { self.source().adopt(); })
      .def("state", &state_of<Engine>)
      .def("restore", &restore<Engine>, "state"_a);
}

}  // namespace dpoco::bindings
