#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/simd/kernels.hpp"
#include "rows.hpp"

namespace dpoco::losses {
namespace {

// A block of this many entries stays in the first cache.
constexpr std::size_t kBlockEntries = 3072;
// Up to this many groups of rows are added without compensation. Sums of such parts are
// compensated, because the sums of neighbouring streams could drift apart otherwise:
// docs/privacy/continual_sum.md.
constexpr std::size_t kMostGroups = 32;
// This many rows do not stay in the second cache, whatever their length.
constexpr std::size_t kBeyondCache = 1 << 14;

class GlmSum final : public LossSum {
 public:
  GlmSum(const domains::Body& body, GlmLoss loss, RecordClipper clipper)
      : LossSum(Kind::glm, body, 1, glm_bounds(body, loss, clipper)),
        loss_(loss),
        clipper_(std::move(clipper)),
        row_(static_cast<std::size_t>(body.ambient()), 0.0),
        staged_(static_cast<std::size_t>(body.dimension()) + 2, 0.0),
        opposite_(static_cast<std::size_t>(body.dimension()), 0.0),
        rows_(static_cast<std::size_t>(body.dimension())) {}

  bool empty() const noexcept override { return rows_.size() == 0; }

  double value(std::span<const double> u) override {
    double sum = 0.0;
    double rest = 0.0;
    for_blocks(u, [&](std::size_t first, std::size_t groups, std::span<const double> margins) {
      const std::size_t end = std::min(groups * kLanes, rows_.size() - first * kLanes);
      double part = 0.0;
      for (std::size_t i = 0; i < end; ++i) {
        const std::size_t row = first * kLanes + i;
        part += rows_.count(row) * loss_.value(margins[i], rows_.label(row));
      }
      add_compensated(part, sum, rest);
    });
    return sum;
  }

  void gradient(std::span<const double> u, std::span<double> out) override { pass(u, out, {}); }
  void hessian(std::span<const double> u, std::span<double> out) override { pass(u, {}, out); }
  void gradient_and_hessian(std::span<const double> u, std::span<double> gradient,
                            std::span<double> hessian) override {
    pass(u, gradient, hessian);
  }
  bool beyond_cache() const noexcept override { return rows_.size() >= kBeyondCache; }

  void add_least_hessian(std::span<double> out) const override {
    const std::size_t d = rows_.dimension();
    std::vector<double> sum(d * d, 0.0);
    std::vector<double> opposite(d);
    std::vector<double> row(d + 2);
    const std::span<const double> v = std::span(row).first(d);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_.copy(i, row);
      for (std::size_t j = 0; j < d; ++j) opposite[j] = -v[j];
      const double low = rows_.offset(i) + body().support_low(v);
      const double high = rows_.offset(i) - body().support_low(opposite);
      const double least = least_curvature(low, high, rows_.label(i));
      if (least > 0.0) add_outer(rows_.count(i) * least, v, sum);
    }
    mirror(sum);
    for (std::size_t i = 0; i < sum.size(); ++i) out[i] += sum[i];
  }

  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    const auto dots = simd::kernels().lane_dots;
    const std::size_t d = rows_.dimension();
    line_at_.resize(rows_.groups() * kLanes);
    line_along_.resize(line_at_.size());
    extend(u);
    dots(rows_.group(0), rows_.groups(), rows_.stride(), extended_.data(), d + 1, line_at_.data());
    dots(rows_.group(0), rows_.groups(), rows_.stride(), step.data(), d, line_along_.data());
    line_at_.resize(rows_.size());
    line_along_.resize(rows_.size());
  }
  double line_value(double t) override {
    return line_sum([&](std::size_t i) {
      return rows_.count(i) * loss_.value(line_at_[i] + t * line_along_[i], rows_.label(i));
    });
  }
  double line_slope(double t) override {
    return line_sum([&](std::size_t i) {
      const double slope = loss_.derivative(line_at_[i] + t * line_along_[i], rows_.label(i));
      return rows_.count(i) * slope * line_along_[i];
    });
  }

  void stage_record(std::span<const double> features, double label) override {
    assert(features.size() == row_.size());
    std::ranges::copy(features, row_.begin());
    const double multiplier = GlmLoss::label_multiplier(label) * clipper_.multiplier(row_);
    dropped_ = multiplier == 0.0;
    for (double& each : row_) each = dropped_ ? 0.0 : multiplier * each;
    const std::size_t d = rows_.dimension();
    staged_[d] = body().pull_back(row_, std::span(staged_).first(d));
    staged_[d + 1] = dropped_ ? loss_.label_low : loss_.clip_label(label);
  }

  // A dropped record has the zero loss, not the loss of a zero vector. Both are constants, but only
  // the zero loss has the value 0.
  double staged_value(std::span<const double> u) const override {
    return dropped_ ? 0.0 : loss_.value(margin(u), label());
  }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    const double slope = dropped_ ? 0.0 : loss_.derivative(margin(u), label());
    for (std::size_t j = 0; j < rows_.dimension(); ++j) out[j] = slope * staged_[j];
  }
  double staged_curvature(std::span<const double> u) const override {
    return dropped_ ? 0.0 : loss_.curvature(margin(u), label());
  }
  std::span<const double> staged_direction() const override {
    return {staged_.data(), rows_.dimension()};
  }
  void staged_hessian(std::span<const double> u, std::span<double> out) const override {
    std::ranges::fill(out, 0.0);
    add_outer(staged_curvature(u), staged_direction(), out);
    mirror(out);
  }

  double staged_minimum() override {
    if (dropped_) return 0.0;
    const std::size_t d = rows_.dimension();
    for (std::size_t j = 0; j < d; ++j) opposite_[j] = -staged_[j];
    const double low = staged_[d] + body().support_low(staged_direction());
    const double high = staged_[d] - body().support_low(opposite_);
    if (loss_.derivative(low, label()) >= 0.0) return loss_.value(low, label());
    if (loss_.derivative(high, label()) <= 0.0) return loss_.value(high, label());
    return loss_.minimum(label());
  }

  void commit() override {
    if (!dropped_) rows_.add(staged_, 1.0);
    ++committed_;
  }

  void write(Archive& archive) const override {
    archive.word(committed_);
    rows_.write(archive);
  }
  void read(ArchiveReader& archive) override {
    committed_ = archive.word();
    rows_.read(archive, committed_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!possible(i)) throw StateError("state holds records beyond the declared bounds");
    }
  }

 private:
  double label() const noexcept { return staged_[rows_.dimension() + 1]; }
  // Returns whether a clipped record can have become row i. On steeper losses samplers could run
  // forever.
  bool possible(std::size_t i) const {
    const std::size_t d = rows_.dimension();
    std::vector<double> row(d + 2);
    rows_.copy(i, row);
    std::vector<double> centre(row_.size());
    const std::vector<double> origin(d, 0.0);
    body().embed(origin, centre);
    const double ambient = std::sqrt(static_cast<double>(row_.size()));
    const double length = (1.0 + 1e-6) * ambient * clipper_.bound();  // of the record, Euclidean
    const double far = std::sqrt(simd::dot(centre, centre));
    const bool inside =
        std::all_of(row.data(), row.data() + d, [&](double x) { return std::fabs(x) <= length; });
    return inside && std::fabs(row[d]) <= length * far &&
           loss_.clip_label(row[d + 1]) == row[d + 1];
  }
  double margin(std::span<const double> u) const {
    return staged_[rows_.dimension()] + simd::dot(staged_direction(), u);
  }

  // The least second derivative over margins in [low, high].
  double least_curvature(double low, double high, double label) const {
    if (!std::isfinite(low) || !std::isfinite(high)) return 0.0;
    // The second derivative of the logistic loss falls on both sides of 0, and that of the Huber
    // loss is 0 outside its threshold. So the minimum is at an end.
    return std::min(loss_.curvature(low, label), loss_.curvature(high, label));
  }

  // The offset is one more entry of a row, multiplied by an entry 1 of u.
  void extend(std::span<const double> u) {
    assert(u.size() == rows_.dimension());
    extended_.assign(u.begin(), u.end());
    extended_.push_back(1.0);
  }

  // Calls visit(first group, number of groups, margins) for all rows in order. `visit` may
  // overwrite the margins.
  template <class Visit>
  void for_blocks(std::span<const double> u, Visit visit) {
    const auto dots = simd::kernels().lane_dots;
    const std::size_t d = rows_.dimension();
    const std::size_t most =
        std::clamp(kBlockEntries / (kLanes * rows_.stride()), std::size_t{1}, kMostGroups);
    extend(u);
    double margins[kLanes * kMostGroups];
    for (std::size_t first = 0; first < rows_.groups(); first += most) {
      const std::size_t groups = std::min(most, rows_.groups() - first);
      dots(rows_.group(first), groups, rows_.stride(), extended_.data(), d + 1, margins);
      // Prefetches the next block.
      const std::size_t ahead = std::min(most, rows_.groups() - first - groups);
      const double* const next = rows_.group(first + groups);
      for (std::size_t i = 0; i < ahead * rows_.stride(); ++i) {
        __builtin_prefetch(next + kLanes * i, 0, 2);
      }
      visit(first, groups, std::span(margins).first(kLanes * groups));
    }
  }

  // Computes the sum's gradient and Hessian at u in one pass over the rows. Either may be empty.
  void pass(std::span<const double> u, std::span<double> gradient, std::span<double> hessian) {
    const simd::Kernels& k = simd::kernels();
    const std::size_t n = rows_.dimension();
    // Sums in eight lanes: the gradient's entries, then the Hessian's upper triangle, row by row.
    const auto for_parts = [&](auto visit) {
      if (!gradient.empty()) visit(std::size_t{0}, n);
      for (std::size_t i = 0; !hessian.empty() && i < n; ++i) visit(n + i * n + i, n - i);
    };
    const std::size_t size = kLanes * n * (hessian.empty() ? 1 : n + 1);
    lanes_.assign(size, 0.0);
    totals_.assign(size, 0.0);
    rests_.assign(size, 0.0);
    std::size_t pending = 0;  // groups in lanes_
    const auto carry = [&](std::size_t first, std::size_t count) {
      double* const lanes = lanes_.data() + kLanes * first;
      k.accumulate(1.0, lanes, kLanes * count, totals_.data() + kLanes * first,
                   rests_.data() + kLanes * first);
      std::fill(lanes, lanes + kLanes * count, 0.0);
    };
    double bends[kLanes * kMostGroups];
    for_blocks(u, [&](std::size_t first, std::size_t groups, std::span<double> margins) {
      if (pending + groups > kMostGroups) {
        for_parts(carry);
        pending = 0;
      }
      pending += groups;
      const double* const rows = rows_.group(first);
      if (!hessian.empty()) {
        std::ranges::copy(margins, bends);
        curvatures(first, std::span(bends).first(margins.size()));
        k.lane_grams(rows, groups, rows_.stride(), bends, n, lanes_.data() + kLanes * n);
      }
      if (!gradient.empty()) {
        derivatives(first, margins);
        k.lane_sums(rows, groups, rows_.stride(), margins.data(), n, lanes_.data());
      }
    });
    for_parts(carry);
    const auto total = [&](std::size_t i) { return k.sum(totals_.data() + kLanes * i, kLanes); };
    for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] = total(j);
    if (hessian.empty()) return;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) hessian[i * n + j] = total(n + i * n + j);
    }
    mirror(hessian);
  }

  // The sum of term(row) over all rows.
  template <class Term>
  double line_sum(Term term) const {
    double sum = 0.0;
    double rest = 0.0;
    for (std::size_t first = 0; first < line_at_.size(); first += kLanes * kMostGroups) {
      const std::size_t end = std::min(first + kLanes * kMostGroups, line_at_.size());
      double part = 0.0;
      for (std::size_t i = first; i < end; ++i) part += term(i);
      add_compensated(part, sum, rest);
    }
    return sum;
  }

  // Replaces margins by count * dl/dz, and by count * d^2l/dz^2.
  void derivatives(std::size_t first, std::span<double> margins) const {
    const bool logistic = loss_.kind == GlmKind::logistic;
    if (logistic) simd::kernels().sigmoid(margins.data(), margins.size(), margins.data());
    for (; !margins.empty(); ++first, margins = margins.subspan(kLanes)) {
      const auto labels = rows_.labels(first), counts = rows_.counts(first);
      for (std::size_t i = 0; i < kLanes; ++i) {
        const double slope = logistic ? loss_.weight * (margins[i] - labels[i])
                                      : loss_.derivative(margins[i], labels[i]);
        margins[i] = counts[i] * slope;
      }
    }
  }
  void curvatures(std::size_t first, std::span<double> margins) const {
    const bool logistic = loss_.kind == GlmKind::logistic;
    if (logistic) simd::kernels().sigmoid_slope(margins.data(), margins.size(), margins.data());
    for (; !margins.empty(); ++first, margins = margins.subspan(kLanes)) {
      const auto labels = rows_.labels(first), counts = rows_.counts(first);
      for (std::size_t i = 0; i < kLanes; ++i) {
        const double bend =
            logistic ? loss_.weight * margins[i] : loss_.curvature(margins[i], labels[i]);
        margins[i] = counts[i] * bend;
      }
    }
  }

  // The upper triangle of out += weight v v'.
  void add_outer(double weight, std::span<const double> v, std::span<double> out) const {
    const std::size_t d = rows_.dimension();
    for (std::size_t i = 0; i < d; ++i) {
      const double factor = weight * v[i];
      double* to = out.data() + i * d;
      for (std::size_t j = i; j < d; ++j) to[j] += factor * v[j];
    }
  }
  void mirror(std::span<double> out) const {
    const std::size_t d = rows_.dimension();
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < i; ++j) out[i * d + j] = out[j * d + i];
    }
  }

  GlmLoss loss_;
  RecordClipper clipper_;
  std::vector<double> row_;     // private copy of the record
  std::vector<double> staged_;  // direction, offset, label
  std::vector<double> opposite_;
  bool dropped_ = true;
  std::uint64_t committed_ = 0;
  Rows rows_;
  std::vector<double> extended_;  // u, 1
  Lines lanes_;                   // partial sums
  Lines totals_;                  // sums of lanes_
  Lines rests_;                   // compensation of the rounding errors of totals_
  std::vector<double> line_at_;
  std::vector<double> line_along_;
};

}  // namespace

LossBounds glm_bounds(const domains::Body& body, const GlmLoss& loss,
                      const RecordClipper& clipper) {
  const double margin = clipper.largest_product([&](double order) { return body.max_norm(order); });
  const double length = clipper.largest_l2();
  return {.lipschitz = loss.largest_slope(margin) * length,
          .smoothness = loss.largest_curvature() * length * length};
}

std::unique_ptr<LossSum> make_glm_rows(domains::Body body, GlmLoss loss, RecordClipper clipper) {
  return std::make_unique<GlmSum>(body, loss, std::move(clipper));
}

}  // namespace dpoco::losses
