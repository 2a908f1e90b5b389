#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::losses {

void LossSum::stage_vector(std::span<const double>) {
  throw std::invalid_argument("this sum takes no gradients");
}

void LossSum::stage_record(std::span<const double>, double) {
  throw std::invalid_argument("this sum takes no records with labels");
}

void LossSum::stage_matrix(std::span<const double>, std::span<const double>) {
  throw std::invalid_argument("this sum takes no matrices");
}

namespace {

class LinearSum final : public LossSum {
 public:
  LinearSum(domains::Body body, RecordClipper clipper)
      : LossSum(Kind::linear, std::move(body), 0, {.lipschitz = clipper.largest_l2()}),
        clipper_(std::move(clipper)),
        row_(static_cast<std::size_t>(this->body().ambient()), 0.0),
        sum_(static_cast<std::size_t>(dimension()), 0.0),
        rest_(sum_),
        staged_(sum_) {
    if (clipper_.dimension() != this->body().ambient()) {
      throw std::invalid_argument("clipper and domain differ in dimension");
    }
  }

  bool empty() const noexcept override {
    return offset_ == 0.0 &&
           std::all_of(sum_.begin(), sum_.end(), [](double x) { return x == 0.0; });
  }

  double value(std::span<const double> u) override { return offset_ + simd::dot(sum_, u); }
  void gradient(std::span<const double>, std::span<double> out) override {
    std::ranges::copy(sum_, out.begin());
  }
  void hessian(std::span<const double>, std::span<double> out) override {
    std::ranges::fill(out, 0.0);
  }
  void add_least_hessian(std::span<double>) const override {}

  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    line_at_ = value(u);
    line_slope_ = simd::dot(sum_, step);
  }
  double line_value(double t) override { return line_at_ + t * line_slope_; }
  double line_slope(double) override { return line_slope_; }

  void stage_vector(std::span<const double> gradient) override {
    assert(gradient.size() == row_.size());
    std::ranges::copy(gradient, row_.begin());
    const double multiplier = clipper_.multiplier(row_);
    for (double& each : row_) each = multiplier == 0.0 ? 0.0 : multiplier * each;
    staged_offset_ = body().pull_back(row_, staged_);
  }

  double staged_value(std::span<const double> u) const override {
    return staged_offset_ + simd::dot(staged_, u);
  }
  void staged_gradient(std::span<const double>, std::span<double> out) const override {
    std::ranges::copy(staged_, out.begin());
  }
  double staged_curvature(std::span<const double>) const override { return 0.0; }
  std::span<const double> staged_direction() const override { return staged_; }
  void staged_hessian(std::span<const double>, std::span<double> out) const override {
    std::ranges::fill(out, 0.0);
  }
  double staged_minimum() override { return staged_offset_ + body().support_low(staged_); }

  void commit() override {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      add_compensated(staged_[i], sum_[i], rest_[i]);
    }
    add_compensated(staged_offset_, offset_, offset_rest_);
  }

  void write(Archive& archive) const override {
    archive.reals(sum_);
    archive.real(offset_);
    archive.reals(rest_);
    archive.real(offset_rest_);
  }
  void read(ArchiveReader& archive) override {
    archive.reals(sum_);
    offset_ = archive.real();
    archive.reals(rest_);
    offset_rest_ = archive.real();
    const bool sound = are_rests({&offset_, 1}, {&offset_rest_, 1}) && are_rests(sum_, rest_);
    if (!sound) throw StateError("state holds no sum");
  }

 private:
  RecordClipper clipper_;
  std::vector<double> row_;  // private copy of the record
  std::vector<double> sum_;
  std::vector<double> rest_;
  double offset_ = 0.0;  // the losses' value at the centre
  double offset_rest_ = 0.0;
  std::vector<double> staged_;
  double staged_offset_ = 0.0;
  double line_at_ = 0.0;
  double line_slope_ = 0.0;
};

}  // namespace

std::unique_ptr<LossSum> make_linear_sum(domains::Body body, RecordClipper clipper) {
  return std::make_unique<LinearSum>(std::move(body), std::move(clipper));
}

}  // namespace dpoco::losses
