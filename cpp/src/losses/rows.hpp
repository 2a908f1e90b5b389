#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::losses {

inline constexpr std::size_t kLanes = 8;

// Eight numbers are one cache line. A load across two lines takes twice as long.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) noexcept {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const noexcept { return true; }

 private:
  static constexpr std::align_val_t kLine{64};
};
using Lines = std::vector<double, LineAllocator<double>>;

// The distinct rows (v, offset, label) of a stream with their counts. A row's loss at u is l(offset
// + <v, u>, label). The rows are stored in groups of eight, entry by entry, as the kernels read
// them. Rows that fill up the last group are zero with count zero.
class Rows {
 public:
  explicit Rows(std::size_t dimension)
      : length_(dimension + 2), stride_(dimension + 3), table_(64, 0) {}

  std::size_t size() const noexcept { return size_; }
  std::size_t groups() const noexcept { return (size_ + kLanes - 1) / kLanes; }
  std::size_t dimension() const noexcept { return length_ - 2; }
  // Columns of a group: v, offset, label, count.
  std::size_t stride() const noexcept { return stride_; }
  // Where a group begins. Kernels read several consecutive groups from here.
  const double* group(std::size_t k) const noexcept {
    return values_.data() + k * kLanes * stride_;
  }
  // Labels and counts of a group's rows.
  std::span<const double> labels(std::size_t k) const noexcept { return column(k, length_ - 1); }
  std::span<const double> counts(std::size_t k) const noexcept { return column(k, length_); }
  double offset(std::size_t i) const noexcept { return entry(i, length_ - 2); }
  double label(std::size_t i) const noexcept { return entry(i, length_ - 1); }
  double count(std::size_t i) const noexcept { return entry(i, length_); }
  // v, offset and label of row i.
  void copy(std::size_t i, std::span<double> out) const noexcept {
    for (std::size_t j = 0; j < length_; ++j) out[j] = entry(i, j);
  }

  // `row` is v, offset, label.
  void add(std::span<const double> row, double count) {
    const std::size_t slot = find(row);
    if (table_[slot] != 0) {
      values_[place(table_[slot] - 1, length_)] += count;
      return;
    }
    append(row, count);
    table_[slot] = size_;
    if (2 * size_ > table_.size()) rebuild(2 * table_.size());
  }

  void write(Archive& archive) const {
    std::vector<double> counts(size_);
    std::vector<double> rows(size_ * length_);
    for (std::size_t i = 0; i < size_; ++i) {
      counts[i] = count(i);
      copy(i, std::span(rows).subspan(i * length_, length_));
    }
    archive.word(size_);
    archive.reals(counts, rows);
  }

  // At most `most` rows, counted.
  void read(ArchiveReader& archive, std::uint64_t most) {
    const std::uint64_t size = archive.word();
    if (size > most) throw StateError("state holds a number out of range");
    const std::vector<double> counts = all(archive, size);
    const std::vector<double> rows = all(archive, size * length_);
    if (rows.size() != counts.size() * length_) throw StateError("state holds no rows");
    const auto finite = [](double x) { return std::isfinite(x); };
    const auto counted = [](double x) { return x >= 1.0 && x <= 9e15 && x == std::floor(x); };
    if (!std::all_of(rows.begin(), rows.end(), finite) ||
        !std::all_of(counts.begin(), counts.end(), counted)) {
      throw StateError("state holds no rows");
    }
    for (std::size_t i = 0; i < counts.size(); ++i)
      append(std::span(rows).subspan(i * length_, length_), counts[i]);
    std::size_t slots = 64;
    while (slots < 2 * size_ + 2) slots *= 2;
    rebuild(slots);
  }

 private:
  // Reads an array of n numbers. The array grows with the numbers read, whatever length the state
  // claims.
  static std::vector<double> all(ArchiveReader& archive, std::uint64_t n) {
    if (archive.word() != n) throw StateError("state holds an array of another length");
    std::vector<double> values;
    for (std::uint64_t i = 0; i < n; ++i) values.push_back(archive.real());
    return values;
  }

  std::span<const double> column(std::size_t k, std::size_t j) const noexcept {
    return {group(k) + kLanes * j, kLanes};
  }
  std::size_t place(std::size_t i, std::size_t j) const noexcept {
    return ((i / kLanes) * stride_ + j) * kLanes + i % kLanes;
  }
  double entry(std::size_t i, std::size_t j) const noexcept { return values_[place(i, j)]; }

  void append(std::span<const double> row, double count) {
    assert(row.size() == length_);
    if (size_ % kLanes == 0) values_.resize(values_.size() + kLanes * stride_, 0.0);
    for (std::size_t j = 0; j < length_; ++j) values_[place(size_, j)] = row[j];
    values_[place(size_, length_)] = count;
    ++size_;
  }

  std::size_t find(std::span<const double> row) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (std::size_t j = 0; j < length_; ++j) {
      hash = (hash ^ elementary::to_bits(row[j])) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    const std::size_t mask = table_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(hash) & mask;
    while (table_[slot] != 0 && !equal(table_[slot] - 1, row)) slot = (slot + 1) & mask;
    return slot;
  }
  bool equal(std::size_t i, std::span<const double> row) const {
    for (std::size_t j = 0; j < length_; ++j) {
      if (elementary::to_bits(entry(i, j)) != elementary::to_bits(row[j])) return false;
    }
    return true;
  }

  void rebuild(std::size_t slots) {
    table_.assign(slots, 0);
    std::vector<double> row(length_);
    for (std::size_t i = 0; i < size_; ++i) {
      copy(i, row);
      table_[find(row)] = i + 1;
    }
  }

  std::size_t length_;
  std::size_t stride_;
  std::size_t size_ = 0;
  Lines values_;
  std::vector<std::size_t> table_;  // open addressing: index + 1, 0 for a free slot
};

}  // namespace dpoco::losses
