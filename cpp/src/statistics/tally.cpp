#include "dpoco/statistics/tally.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace dpoco::statistics {
namespace {

constexpr double kLargestUnit = 0x1p50;
constexpr std::int64_t kFull = std::int64_t{1} << 61;
constexpr std::size_t kFewEdges = 64;
constexpr std::size_t kNone = ~std::size_t{0};

void saturate(std::int64_t& cell, std::int64_t more) {
  cell = std::clamp(cell + more, -kFull, kFull);
}

// Returns the number of edges that are not above x.
std::size_t find_bin(const std::vector<double>& edges, double x) {
  if (edges.size() > kFewEdges) {
    const auto above = std::upper_bound(edges.begin(), edges.end(), x);
    return static_cast<std::size_t>(above - edges.begin());
  }
  std::size_t found = 0;  // a loop without branches is faster for so few
  for (const double edge : edges) found += edge <= x ? 1 : 0;
  return found;
}

// Calls add(cell of the first group, entry) for each record that has an entry.
template <class Find>
void add_block(const Columns& records, std::size_t groups, std::span<std::int64_t> block,
               Find find) {
  const std::size_t cells = block.size() / groups;
  for (std::size_t i = 0; i < records.records; ++i) {
    if (!records.passed.empty() && records.passed[i] == 0) continue;
    std::size_t group = 0;
    if (!records.group.empty()) {
      group = static_cast<std::size_t>(records.group[i]);
      if (group >= groups) group = groups - 1;
    }
    const auto [cell, entry] = find(i);
    if (cell < cells) saturate(block[group * cells + cell], entry);
  }
}

}  // namespace

Tally::Tally(std::vector<Block> blocks, std::size_t groups)
    : blocks_(std::move(blocks)), groups_(groups) {
  for (const Block& block : blocks_) {
    const bool bins = block.entry != Entry::bin || block.cells == block.edges.size() + 1;
    if (block.cells < 1 || !bins || !(std::fabs(block.unit) <= kLargestUnit) ||
        !(block.half > 0.0) || !(block.low <= block.high)) {
      throw std::invalid_argument("a block of a total is out of range");
    }
    size_ += block.cells * groups_;
    if (block.entry != Entry::one) columns_ = std::max(columns_, block.column + 1);
  }
  if (size_ == 0) throw std::invalid_argument("a total has no cells");
}

void Tally::add(const Columns& records, std::span<std::int64_t> cells) const {
  if (cells.size() != size_ || records.numbers.size() < columns_) {
    throw std::invalid_argument("records or cells of another shape");
  }
  using Found = std::pair<std::size_t, std::int64_t>;
  for (const Block& block : blocks_) {
    const auto x =
        block.entry == Entry::one ? std::span<const double>() : records.numbers[block.column];
    const std::span<std::int64_t> own = cells.first(block.cells * groups_);
    cells = cells.subspan(own.size());
    const std::int64_t unit = std::llrint(block.unit);
    const auto each = [&](auto find) { add_block(records, groups_, own, find); };
    switch (block.entry) {
      case Entry::one:
        each([&](std::size_t) { return Found{0, unit}; });
        break;
      case Entry::present:
        each([&](std::size_t i) { return Found{std::isfinite(x[i]) ? 0 : kNone, unit}; });
        break;
      case Entry::value:
        each([&](std::size_t i) {
          if (!std::isfinite(x[i])) return Found{kNone, 0};
          const double kept = std::clamp(x[i], block.low, block.high);
          const double scaled = std::clamp((kept - block.middle) / block.half, -1.0, 1.0);
          return Found{0, std::llrint(block.unit * scaled)};
        });
        break;
      case Entry::bin:
        each([&](std::size_t i) {
          return Found{std::isfinite(x[i]) ? find_bin(block.edges, x[i]) : kNone, unit};
        });
        break;
      case Entry::code:
        each([&](std::size_t i) {
          const bool inside = x[i] >= 0.0 && x[i] < static_cast<double>(block.cells);
          const std::size_t cell = inside ? static_cast<std::size_t>(x[i]) : 0;
          return Found{inside && static_cast<double>(cell) == x[i] ? cell : kNone, unit};
        });
        break;
    }
  }
}

void Tally::take(std::span<std::int64_t> cells, std::int64_t limit, double grid,
                 std::span<double> out) const {
  if (cells.size() != size_ || out.size() != size_ || limit < 0) {
    throw std::invalid_argument("cells of another shape");
  }
  for (std::size_t i = 0; i < size_; ++i) {
    out[i] = static_cast<double>(std::clamp(cells[i], -limit, limit)) * grid;
    cells[i] = 0;
  }
}

}  // namespace dpoco::statistics
