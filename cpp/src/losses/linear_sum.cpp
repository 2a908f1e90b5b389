#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::losses {

void LossSum::stage_vector(const double*) {
  throw std::invalid_argument("this sum takes no gradients");
}

void LossSum::stage_record(const double*, double) {
  throw std::invalid_argument("this sum takes no records with labels");
}

void LossSum::stage_matrix(const double*, const double*) {
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

  double value(const double* u) const override { return offset_ + dot(sum_, u); }
  void gradient(const double*, double* out) const override {
    std::copy(sum_.begin(), sum_.end(), out);
  }
  void hessian(const double*, double* out) const override {
    std::fill(out, out + sum_.size() * sum_.size(), 0.0);
  }
  void add_least_hessian(double*) const override {}

  void prepare_line(const double* u, const double* step) const override {
    line_at_ = value(u);
    line_slope_ = dot(sum_, step);
  }
  double line_value(double t) const override { return line_at_ + t * line_slope_; }
  double line_slope(double) const override { return line_slope_; }

  void stage_vector(const double* gradient) override {
    std::copy(gradient, gradient + row_.size(), row_.data());
    const double multiplier = clipper_.multiplier(row_.data());
    for (double& each : row_) each = multiplier == 0.0 ? 0.0 : multiplier * each;
    staged_offset_ = body().pull_back(row_.data(), staged_.data());
  }

  double staged_value(const double* u) const override { return staged_offset_ + dot(staged_, u); }
  void staged_gradient(const double*, double* out) const override {
    std::copy(staged_.begin(), staged_.end(), out);
  }
  double staged_curvature(const double*) const override { return 0.0; }
  const double* staged_direction() const override { return staged_.data(); }
  void staged_hessian(const double*, double* out) const override {
    std::fill(out, out + sum_.size() * sum_.size(), 0.0);
  }
  double staged_minimum() const override {
    return staged_offset_ + body().support_low(staged_.data());
  }

  void commit() override {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      add_compensated(staged_[i], sum_[i], rest_[i]);
    }
    add_compensated(staged_offset_, offset_, offset_rest_);
  }

  void write(Archive& archive) const override {
    archive.reals(sum_.data(), sum_.size());
    archive.real(offset_);
    archive.reals(rest_.data(), rest_.size());
    archive.real(offset_rest_);
  }
  void read(ArchiveReader& archive) override {
    archive.reals(sum_.data(), sum_.size());
    offset_ = archive.real();
    archive.reals(rest_.data(), rest_.size());
    offset_rest_ = archive.real();
    const bool sound =
        are_rests(&offset_, &offset_rest_, 1) && are_rests(sum_.data(), rest_.data(), sum_.size());
    if (!sound) throw StateError("state holds no sum");
  }

 private:
  double dot(const std::vector<double>& a, const double* b) const {
    return simd::kernels().dot(a.data(), b, a.size());
  }

  RecordClipper clipper_;
  std::vector<double> row_;  // private copy of the record
  std::vector<double> sum_;
  std::vector<double> rest_;
  double offset_ = 0.0;  // the losses' value at the centre
  double offset_rest_ = 0.0;
  std::vector<double> staged_;
  double staged_offset_ = 0.0;
  mutable double line_at_ = 0.0;
  mutable double line_slope_ = 0.0;
};

}  // namespace

std::unique_ptr<LossSum> make_linear_sum(domains::Body body, RecordClipper clipper) {
  return std::make_unique<LinearSum>(std::move(body), std::move(clipper));
}

}  // namespace dpoco::losses
