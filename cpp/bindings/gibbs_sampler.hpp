#pragma once

#include <optional>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

// A sum of losses with its sampler, in the domain's own coordinates.
class GibbsSampler {
 public:
  GibbsSampler(std::shared_ptr<const domains::Domain> domain, const py::object& losses,
               const samplers::GibbsSettings& settings)
      : sum_(make_loss_sum(std::move(domain), {losses, "a sum of losses"})),
        settings_(settings),
        sampler_(sum_->body(), settings) {}

  void observe_vectors(const Array& gradients) {
    expect_columns(gradients);
    for (py::ssize_t i = 0; i < gradients.shape(0); ++i) {
      sum_->stage_vector(row(gradients, i));
      sum_->commit();
    }
  }

  void observe_records(const Array& features, Reals labels) {
    expect_columns(features);
    expect_size(labels, static_cast<std::size_t>(features.shape(0)), "labels");
    for (py::ssize_t i = 0; i < features.shape(0); ++i) {
      sum_->stage_record(row(features, i), labels[static_cast<std::size_t>(i)]);
      sum_->commit();
    }
  }

  void observe_matrix(Reals matrix, Reals vector) {
    const auto d = static_cast<std::size_t>(ambient());
    expect_size(matrix, d * d, "matrix");
    expect_size(vector, d, "vector");
    sum_->stage_matrix(matrix, vector);
    sum_->commit();
  }

  void observe_loss(const py::object& loss) {
    stage_object(*sum_, loss);
    sum_->commit();
  }

  // Writes a draw to each row of `out`.
  void fill(random::Source& source, Array& out) {
    fill_with(out, [&](std::span<double> to) { sampler_.sample_many(source, *sum_, to); });
  }

  // Writes states of the chain, `steps` apart, to the rows of `out`.
  void walk(random::Source& source, std::uint64_t steps, Array& out) {
    fill_with(out, [&](std::span<double> to) { sampler_.walk(source, *sum_, steps, state_, to); });
  }

  std::uint64_t chain_steps() const {
    return samplers::GibbsSampler::chosen_length(sum_->body(), settings_);
  }
  py::tuple state() const { return py::make_tuple(state_.position, state_.step_size); }
  void set_state(std::vector<double> position, double step_size) {
    const auto n = static_cast<std::size_t>(sum_->dimension());
    if (!position.empty() && position.size() != n) throw StateError("state is of another law");
    state_ = {std::move(position), step_size};
  }

  py::tuple mode() {
    Vector u(sum_->dimension());
    const double residual = sampler_.mode(*sum_, view(u));
    Array x(ambient());
    sum_->body().embed(view(u), writable(x));
    return py::make_tuple(x, residual);
  }

  py::dict report() const {
    static constexpr const char* kNames[] = {
        "truncated_gaussian", "gaussian", "line",    "envelope",
        "hit_and_run",        "langevin", "proximal"};
    const samplers::GibbsReport& report = sampler_.nonprivate_report();
    return py::dict("method"_a = kNames[static_cast<std::size_t>(report.method)],
                    "predicted_acceptance"_a = report.predicted_acceptance,
                    "proposals"_a = report.proposals, "accepted"_a = report.accepted);
  }

 private:
  template <class Fill>
  void fill_with(Array& out, Fill fill) {
    expect_columns(out);
    const std::span<double> to = writable(out);
    std::optional<py::gil_scoped_release> nogil;  // dpoco.random.Source is locked itself
    if (sum_->kind() != losses::LossSum::Kind::custom) nogil.emplace();
    const auto d = static_cast<std::size_t>(ambient());
    const auto n = static_cast<std::size_t>(sum_->dimension());
    std::vector<double> draws(to.size() / d * n);
    fill(draws);
    for (std::size_t i = 0; i < to.size() / d; ++i) {
      sum_->body().embed(std::span(draws).subspan(i * n, n), to.subspan(i * d, d));
    }
  }

  py::ssize_t ambient() const { return sum_->body().ambient(); }
  std::span<const double> row(const Array& rows, py::ssize_t i) const {
    const auto d = static_cast<std::size_t>(ambient());
    return entries(rows).subspan(static_cast<std::size_t>(i) * d, d);
  }
  void expect_columns(const Array& rows) const {
    if (rows.ndim() != 2 || rows.shape(1) != ambient()) {
      throw std::invalid_argument("rows have the wrong shape");
    }
  }

  std::unique_ptr<losses::LossSum> sum_;
  samplers::GibbsSettings settings_;
  samplers::GibbsSampler sampler_;
  samplers::ChainState state_;
};

}  // namespace dpoco::bindings
