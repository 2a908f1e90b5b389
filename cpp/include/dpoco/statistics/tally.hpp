#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dpoco::statistics {

// What a record adds to its cell of a block.
enum class Entry {
  one,      // the unit
  present,  // the unit, if its column is a finite number
  value,    // the unit times the number, scaled to [-1, 1]
  bin,      // the unit, in the bin of the number: below the first edge, ..., from the last edge on
  code,     // the unit, in the cell of this number
};

// A block of a total has `cells` cells for each group. A record changes at most one of them, by at
// most `unit` (docs/privacy/statistics.md).
struct Block {
  Entry entry = Entry::one;
  std::size_t column = 0;  // of the record, except for `one`
  std::size_t cells = 1;
  double unit = 1.0;  // in multiples of the grid
  double low = -1.0;  // `value` clips numbers to [low, high],
  double high = 1.0;
  double middle = 0.0;  // then shifts and divides them
  double half = 1.0;
  std::vector<double> edges;  // of `bin`, increasing
};

// Columns of records: numbers, NaN if there is none.
struct Columns {
  std::vector<std::span<const double>> numbers;
  std::span<const std::int32_t> group;   // of each record; empty: all are in the first
  std::span<const std::uint8_t> passed;  // whether the record counts; empty: all do
  std::size_t records = 0;
};

// Adds records up to integers, with one pass over the records for each block. Every entry is
// rounded to an integer and added separately, with saturation. So totals of streams that differ in
// one record differ by no more than this record, however many others there are, and partial totals
// add up to the same integers in any order.
class Tally {
 public:
  // Throws std::invalid_argument for units beyond 2^50, and for no cells.
  Tally(std::vector<Block> blocks, std::size_t groups);

  // The number of cells of all blocks. Each block has the cells of all groups, group after group.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  void add(const Columns& records, std::span<std::int64_t> cells) const;
  // Writes the cells to `out`, each clamped to +-limit and multiplied by `grid`, and sets them to
  // 0.
  void take(std::span<std::int64_t> cells, std::int64_t limit, double grid,
            std::span<double> out) const;

 private:
  std::vector<Block> blocks_;
  std::size_t groups_;
  std::size_t size_ = 0;
  std::size_t columns_ = 0;
};

}  // namespace dpoco::statistics
