#include "dpoco/losses/glm.hpp"

#include "dpoco/losses/record.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using losses::GlmKind;
using losses::GlmLoss;
using losses::RecordClipper;

namespace {

GlmLoss make_glm_loss(const std::string& kind, double weight, double threshold, double label_low,
                      double label_high, double slope_bound) {
  if (!(slope_bound >= 0.5) || !(slope_bound <= 1.0)) {
    throw std::invalid_argument("slope_bound must be in [1/2, 1]");
  }
  if (!(weight > 0.0) || !(threshold > 0.0) || !(label_low <= label_high)) {
    throw std::invalid_argument("weight and threshold must be positive, label bounds ordered");
  }
  GlmLoss loss{GlmKind::squared, weight, threshold, label_low, label_high};
  if (kind == "logistic") {
    loss.kind = GlmKind::logistic;
    loss.threshold = slope_bound;
  } else if (kind == "huber") {
    loss.kind = GlmKind::huber;
  } else if (kind != "squared") {
    throw std::invalid_argument("kind must be squared, logistic or huber");
  }
  return loss;
}

// f of one variable, given by its slopes; see `OneVariableTable`.
GlmLoss make_table(Reals slopes, double reach, double at_zero, bool residual, double label_low,
                   double label_high) {
  if (!(label_low <= label_high)) throw std::invalid_argument("label bounds must be ordered");
  GlmLoss loss{GlmKind::table, 1.0, 1.0, label_low, label_high};
  loss.table = std::make_shared<const losses::OneVariableTable>(slopes, reach, at_zero);
  loss.residual = residual;
  return loss;
}

// Applies a member function to margins and labels of one length.
template <double (GlmLoss::*Function)(double, double) const noexcept>
Array each(const GlmLoss& self, Reals margins, Reals labels) {
  expect_size(labels, margins.size(), "labels");
  Array out(static_cast<py::ssize_t>(margins.size()));
  const RealsOut to = writable(out);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = (self.*Function)(margins[i], labels[i]);
  return out;
}

Array clip_labels(const GlmLoss& self, Reals labels) {
  Array out(static_cast<py::ssize_t>(labels.size()));
  std::ranges::transform(labels, writable(out).begin(),
                         [&](double label) { return self.clip_label(label); });
  return out;
}

// The clipping factor of every row of a matrix.
Array multipliers(const RecordClipper& self, const Array& records) {
  if (records.ndim() != 2 || records.shape(1) != self.dimension()) {
    throw std::invalid_argument("records have the wrong shape");
  }
  Array out(records.shape(0));
  const auto d = static_cast<std::size_t>(self.dimension());
  const std::span<double> to = writable(out);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = self.multiplier(entries(records).subspan(i * d, d));
  }
  return out;
}

}  // namespace

void register_losses(py::module_& m) {
  py::class_<GlmLoss>(m, "GlmLoss", py::is_final())
      .def(py::init(&make_glm_loss), "kind"_a, "weight"_a, "threshold"_a, "label_low"_a,
           "label_high"_a, "slope_bound"_a = 1.0)
      .def_static("from_table", &make_table)
      .def("values", &each<&GlmLoss::value>)
      .def("derivatives", &each<&GlmLoss::derivative>)
      .def("clip_labels", &clip_labels);
  py::class_<RecordClipper>(m, "RecordClipper", py::is_final())
      .def(py::init<Index, double, double, double>())
      .def("multipliers", &multipliers);
}

}  // namespace dpoco::bindings
