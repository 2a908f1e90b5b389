#include <optional>
#include <vector>

#include "dpoco/samplers/gibbs.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using losses::LossSum;
using random::Source;
using samplers::GibbsMethod;

namespace {

// A sum of losses with its sampler, in the domain's own coordinates.
class GibbsSampler {
 public:
  GibbsSampler(std::shared_ptr<const domains::Domain> domain, const py::object& losses,
               const samplers::GibbsSettings& settings)
      : sum_(make_loss_sum(std::move(domain), {losses, "a sum of losses"})),
        sampler_(sum_->body(), settings) {}

  void observe_vectors(const Array& gradients) {
    expect_columns(gradients);
    for (py::ssize_t i = 0; i < gradients.shape(0); ++i) {
      sum_->stage_vector(data(gradients) + i * ambient());
      sum_->commit();
    }
  }

  void observe_records(const Array& features, const Array& labels) {
    expect_columns(features);
    expect_size(labels, static_cast<std::size_t>(features.shape(0)), "labels");
    for (py::ssize_t i = 0; i < features.shape(0); ++i) {
      sum_->stage_record(data(features) + i * ambient(), data(labels)[i]);
      sum_->commit();
    }
  }

  void observe_matrix(const Array& matrix, const Array& vector) {
    const auto d = static_cast<std::size_t>(ambient());
    expect_size(matrix, d * d, "matrix");
    expect_size(vector, d, "vector");
    sum_->stage_matrix(data(matrix), data(vector));
    sum_->commit();
  }

  void observe_loss(const py::object& loss) {
    stage_object(*sum_, loss);
    sum_->commit();
  }

  // Rows of `out` are draws.
  void fill(Source& source, Array& out) {
    expect_columns(out);
    const py::ssize_t rows = out.shape(0);
    double* const to = out.mutable_data();
    std::optional<py::gil_scoped_release> nogil;  // dpoco.random.Source holds a lock of its own
    if (sum_->kind() != LossSum::Kind::custom) nogil.emplace();
    const Index n = sum_->dimension();
    std::vector<double> draws(static_cast<std::size_t>(rows * n));
    sampler_.sample_many(source, *sum_, rows, draws.data());
    for (py::ssize_t i = 0; i < rows; ++i) {
      sum_->body().embed(draws.data() + i * n, to + i * ambient());
    }
  }

  py::tuple mode() {
    Vector u(sum_->dimension());
    const double residual = sampler_.mode(*sum_, u.data());
    Array x(ambient());
    sum_->body().embed(u.data(), x.mutable_data());
    return py::make_tuple(x, residual);
  }

  py::dict report() const {
    static constexpr const char* kNames[] = {"truncated_gaussian", "gaussian",    "line",
                                             "envelope",           "hit_and_run", "langevin"};
    const samplers::GibbsReport& report = sampler_.nonprivate_report();
    return py::dict("method"_a = kNames[static_cast<std::size_t>(report.method)],
                    "predicted_acceptance"_a = report.predicted_acceptance,
                    "proposals"_a = report.proposals, "accepted"_a = report.accepted);
  }

 private:
  py::ssize_t ambient() const { return sum_->body().ambient(); }
  void expect_columns(const Array& rows) const {
    if (rows.ndim() != 2 || rows.shape(1) != ambient()) {
      throw std::invalid_argument("rows have the wrong shape");
    }
  }

  std::unique_ptr<LossSum> sum_;
  samplers::GibbsSampler sampler_;
};

}  // namespace

void register_gibbs(py::module_& m) {
  py::class_<GibbsSampler>(m, "GibbsSampler", py::is_final())
      .def(py::init([](std::shared_ptr<domains::Domain> domain, const py::object& losses,
                       double inverse_temperature, double regularization, bool exact_only,
                       double tolerance, double chain_below, Index langevin_above) {
             return std::make_unique<GibbsSampler>(
                 std::move(domain), losses,
                 samplers::GibbsSettings{.inverse_temperature = inverse_temperature,
                                         .regularization = regularization,
                                         .exact_only = exact_only,
                                         .tolerance = tolerance,
                                         .chain_below = chain_below,
                                         .langevin_above = langevin_above});
           }),
           "domain"_a, "losses"_a, "inverse_temperature"_a, "regularization"_a,
           "exact_only"_a = true, "tolerance"_a = 1e-12, "chain_below"_a = 1e-4,
           "langevin_above"_a = 50)
      .def("observe_vectors", &GibbsSampler::observe_vectors, "gradients"_a.noconvert())
      .def("observe_records", &GibbsSampler::observe_records, "features"_a.noconvert(),
           "labels"_a.noconvert())
      .def("observe_matrix", &GibbsSampler::observe_matrix, "matrix"_a.noconvert(),
           "vector"_a.noconvert())
      .def("observe_loss", &GibbsSampler::observe_loss, "loss"_a)
      .def("fill", &GibbsSampler::fill, "source"_a, "out"_a.noconvert())
      .def("mode", &GibbsSampler::mode)
      .def("nonprivate_report", &GibbsSampler::report)
      .def_static("chain_length", &samplers::GibbsSampler::chain_length, "dimension"_a,
                  "tolerance"_a);
}

}  // namespace dpoco::bindings
