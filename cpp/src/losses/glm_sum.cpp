#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::losses {
namespace {

// Rows worked on together: their margins stay in the cache.
constexpr std::size_t kBlock = 256;

// The distinct rows (v, offset, label) of a stream with their counts. A row's loss at u is
// l(offset + <v, u>, label).
class Rows {
 public:
  explicit Rows(std::size_t dimension) : stride_(dimension + 2), table_(64, 0) {}

  std::size_t size() const noexcept { return counts_.size(); }
  std::size_t dimension() const noexcept { return stride_ - 2; }
  const double* row(std::size_t i) const noexcept { return values_.data() + i * stride_; }
  double offset(std::size_t i) const noexcept { return row(i)[stride_ - 2]; }
  double label(std::size_t i) const noexcept { return row(i)[stride_ - 1]; }
  double count(std::size_t i) const noexcept { return counts_[i]; }

  // `entry` is v, offset, label.
  void add(const double* entry, double count) {
    const std::size_t slot = find(entry);
    if (table_[slot] != 0) {
      counts_[table_[slot] - 1] += count;
      return;
    }
    values_.insert(values_.end(), entry, entry + stride_);
    counts_.push_back(count);
    table_[slot] = counts_.size();
    if (2 * counts_.size() > table_.size()) grow();
  }

  void write(Archive& archive) const {
    archive.word(counts_.size());
    archive.reals(counts_.data(), counts_.size());
    archive.reals(values_.data(), values_.size());
  }

  // At most `most` rows, counted.
  void read(ArchiveReader& archive, std::uint64_t most) {
    const std::uint64_t rows = archive.word_below(most + 1);
    for (std::uint64_t i = 0; i < rows; ++i) counts_.push_back(0.0);
    archive.reals(counts_.data(), counts_.size());
    values_.resize(counts_.size() * stride_);
    archive.reals(values_.data(), values_.size());
    const auto finite = [](double x) { return std::isfinite(x); };
    const auto counts = [](double x) { return x >= 1.0 && x <= 9e15 && x == std::floor(x); };
    if (!std::all_of(values_.begin(), values_.end(), finite) ||
        !std::all_of(counts_.begin(), counts_.end(), counts)) {
      throw StateError("state holds no rows");
    }
    std::size_t size = 64;
    while (size < 2 * counts_.size() + 2) size *= 2;
    rebuild(size);
  }

 private:
  std::size_t find(const double* entry) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (std::size_t i = 0; i < stride_; ++i) {
      std::uint64_t bits;
      std::memcpy(&bits, entry + i, sizeof bits);
      hash = (hash ^ bits) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    const std::size_t mask = table_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(hash) & mask;
    while (table_[slot] != 0 &&
           std::memcmp(row(table_[slot] - 1), entry, stride_ * sizeof(double)) != 0) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  void grow() { rebuild(2 * table_.size()); }

  void rebuild(std::size_t size) {
    table_.assign(size, 0);
    for (std::size_t i = 0; i < counts_.size(); ++i) table_[find(row(i))] = i + 1;
  }

  std::size_t stride_;
  std::vector<double> values_;
  std::vector<double> counts_;
  std::vector<std::size_t> table_;  // open addressing: index + 1, 0 for a free slot
};

class GlmSum final : public LossSum {
 public:
  GlmSum(const domains::Body& body, GlmLoss loss, RecordClipper clipper)
      : LossSum(Kind::glm, body, 1),
        loss_(loss),
        clipper_(std::move(clipper)),
        row_(static_cast<std::size_t>(body.ambient()), 0.0),
        staged_(static_cast<std::size_t>(body.dimension()) + 2, 0.0),
        opposite_(static_cast<std::size_t>(body.dimension()), 0.0),
        rows_(static_cast<std::size_t>(body.dimension())) {}

  bool empty() const noexcept override { return rows_.size() == 0; }

  double value(const double* u) const override {
    double sum = 0.0;
    for_blocks(u, [&](std::size_t start, std::size_t n, const double* margins) {
      for (std::size_t i = 0; i < n; ++i) {
        sum += rows_.count(start + i) * loss_.value(margins[i], rows_.label(start + i));
      }
    });
    return sum;
  }

  void gradient(const double* u, double* out) const override {
    const std::size_t d = rows_.dimension();
    std::fill(out, out + d, 0.0);
    for_blocks(u, [&](std::size_t start, std::size_t n, const double* margins) {
      for (std::size_t i = 0; i < n; ++i) {
        const double factor =
            rows_.count(start + i) * loss_.derivative(margins[i], rows_.label(start + i));
        const double* v = rows_.row(start + i);
        for (std::size_t j = 0; j < d; ++j) out[j] += factor * v[j];
      }
    });
  }

  void hessian(const double* u, double* out) const override {
    std::fill(out, out + rows_.dimension() * rows_.dimension(), 0.0);
    for_blocks(u, [&](std::size_t start, std::size_t n, const double* margins) {
      for (std::size_t i = 0; i < n; ++i) {
        add_outer(rows_.count(start + i) * loss_.curvature(margins[i], rows_.label(start + i)),
                  rows_.row(start + i), out);
      }
    });
    mirror(out);
  }

  void add_least_hessian(double* out) const override {
    const std::size_t d = rows_.dimension();
    std::vector<double> sum(d * d, 0.0);
    std::vector<double> opposite(d);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double* v = rows_.row(i);
      for (std::size_t j = 0; j < d; ++j) opposite[j] = -v[j];
      const double low = rows_.offset(i) + body().support_low(v);
      const double high = rows_.offset(i) - body().support_low(opposite.data());
      const double least = least_curvature(low, high, rows_.label(i));
      if (least > 0.0) add_outer(rows_.count(i) * least, v, sum.data());
    }
    mirror(sum.data());
    for (std::size_t i = 0; i < sum.size(); ++i) out[i] += sum[i];
  }

  void prepare_line(const double* u, const double* step) const override {
    const simd::Kernels& k = simd::kernels();
    const std::size_t d = rows_.dimension();
    line_at_.resize(rows_.size());
    line_along_.resize(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      line_at_[i] = rows_.offset(i) + k.dot(rows_.row(i), u, d);
      line_along_[i] = k.dot(rows_.row(i), step, d);
    }
  }
  double line_value(double t) const override {
    double sum = 0.0;
    for (std::size_t i = 0; i < line_at_.size(); ++i) {
      sum += rows_.count(i) * loss_.value(line_at_[i] + t * line_along_[i], rows_.label(i));
    }
    return sum;
  }
  double line_slope(double t) const override {
    double sum = 0.0;
    for (std::size_t i = 0; i < line_at_.size(); ++i) {
      const double slope = loss_.derivative(line_at_[i] + t * line_along_[i], rows_.label(i));
      sum += rows_.count(i) * slope * line_along_[i];
    }
    return sum;
  }

  void stage_record(const double* features, double label) override {
    std::copy(features, features + row_.size(), row_.data());
    const double multiplier = GlmLoss::label_multiplier(label) * clipper_.multiplier(row_.data());
    dropped_ = multiplier == 0.0;
    for (double& each : row_) each = dropped_ ? 0.0 : multiplier * each;
    const std::size_t d = rows_.dimension();
    staged_[d] = body().pull_back(row_.data(), staged_.data());
    staged_[d + 1] = dropped_ ? loss_.label_low : loss_.clip_label(label);
  }

  // A dropped record is the zero loss, not the loss of a zero vector: a constant, both, but only
  // the former is 0.
  double staged_value(const double* u) const override {
    return dropped_ ? 0.0 : loss_.value(margin(u), label());
  }
  void staged_gradient(const double* u, double* out) const override {
    const double slope = dropped_ ? 0.0 : loss_.derivative(margin(u), label());
    for (std::size_t j = 0; j < rows_.dimension(); ++j) out[j] = slope * staged_[j];
  }
  double staged_curvature(const double* u) const override {
    return dropped_ ? 0.0 : loss_.curvature(margin(u), label());
  }
  const double* staged_direction() const override { return staged_.data(); }
  void staged_hessian(const double* u, double* out) const override {
    std::fill(out, out + rows_.dimension() * rows_.dimension(), 0.0);
    add_outer(staged_curvature(u), staged_.data(), out);
    mirror(out);
  }

  double staged_minimum() const override {
    if (dropped_) return 0.0;
    const std::size_t d = rows_.dimension();
    for (std::size_t j = 0; j < d; ++j) opposite_[j] = -staged_[j];
    const double low = staged_[d] + body().support_low(staged_.data());
    const double high = staged_[d] - body().support_low(opposite_.data());
    if (loss_.derivative(low, label()) >= 0.0) return loss_.value(low, label());
    if (loss_.derivative(high, label()) <= 0.0) return loss_.value(high, label());
    return loss_.minimum(label());
  }

  void commit() override {
    if (!dropped_) rows_.add(staged_.data(), 1.0);
    ++committed_;
  }

  void write(Archive& archive) const override {
    archive.word(committed_);
    rows_.write(archive);
  }
  void read(ArchiveReader& archive) override {
    committed_ = archive.word();
    rows_.read(archive, committed_);
  }

 private:
  double label() const noexcept { return staged_[rows_.dimension() + 1]; }
  double margin(const double* u) const {
    const std::size_t d = rows_.dimension();
    return staged_[d] + simd::kernels().dot(staged_.data(), u, d);
  }

  // The least second derivative over margins in [low, high].
  double least_curvature(double low, double high, double label) const {
    if (!std::isfinite(low) || !std::isfinite(high)) return 0.0;
    // That of the logistic loss falls on both sides of 0, that of the Huber loss is 0 outside its
    // threshold: the least is at an end.
    return std::min(loss_.curvature(low, label), loss_.curvature(high, label));
  }

  // Calls visit(first row, number, margins) for all rows in order.
  template <class Visit>
  void for_blocks(const double* u, Visit visit) const {
    const simd::Kernels& k = simd::kernels();
    const std::size_t d = rows_.dimension();
    double margins[kBlock];
    for (std::size_t start = 0; start < rows_.size(); start += kBlock) {
      const std::size_t n = std::min(kBlock, rows_.size() - start);
      for (std::size_t i = 0; i < n; ++i) {
        margins[i] = rows_.offset(start + i) + k.dot(rows_.row(start + i), u, d);
      }
      visit(start, n, margins);
    }
  }

  // The upper triangle of out += weight v v'.
  void add_outer(double weight, const double* v, double* out) const {
    const std::size_t d = rows_.dimension();
    for (std::size_t i = 0; i < d; ++i) {
      const double factor = weight * v[i];
      double* to = out + i * d;
      for (std::size_t j = i; j < d; ++j) to[j] += factor * v[j];
    }
  }
  void mirror(double* out) const {
    const std::size_t d = rows_.dimension();
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < i; ++j) out[i * d + j] = out[j * d + i];
    }
  }

  GlmLoss loss_;
  RecordClipper clipper_;
  std::vector<double> row_;     // private copy of the record
  std::vector<double> staged_;  // direction, offset, label
  mutable std::vector<double> opposite_;
  bool dropped_ = true;
  std::uint64_t committed_ = 0;
  Rows rows_;
  mutable std::vector<double> line_at_;
  mutable std::vector<double> line_along_;
};

}  // namespace

std::unique_ptr<LossSum> make_glm_rows(domains::Body body, GlmLoss loss, RecordClipper clipper) {
  return std::make_unique<GlmSum>(body, loss, std::move(clipper));
}

}  // namespace dpoco::losses
