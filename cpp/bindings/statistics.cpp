#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dpoco/statistics/tally.hpp"
#include "mechanism_fields.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

namespace {

using statistics::Block;
using statistics::Columns;
using statistics::Entry;
using statistics::Tally;

using Codes = py::array_t<std::int32_t, py::array::c_style>;
using Marks = py::array_t<bool, py::array::c_style>;
using Cells = py::array_t<std::int64_t, py::array::c_style>;

// Entry, column; low, high, middle, half of a value; edges of bins. Cells and units are those of
// the description.
using Row = std::tuple<std::string, std::size_t, std::vector<double>, std::vector<double>>;

struct Totals {
  std::vector<std::size_t> cells;
  std::vector<double> units;
};

// The fields of interval_totals; `IntervalParticipants` keeps people to `records`.
Totals read_totals(Fields& summand) {
  summand.expect_kind("interval_totals");
  summand.read<std::uint64_t>("records");
  return {summand.read<std::vector<std::size_t>>("cells"),
          summand.read<std::vector<double>>("units")};
}

Block block_of(const Row& row, std::size_t cells, double unit) {
  const auto& [name, column, scale, edges] = row;
  Block block;
  block.column = column;
  block.cells = cells;
  block.unit = unit;
  block.edges = edges;
  if (name == "present") block.entry = Entry::present;
  if (name == "value") block.entry = Entry::value;
  if (name == "bin") block.entry = Entry::bin;
  if (name == "code") block.entry = Entry::code;
  if (block.entry == Entry::one && name != "one") throw std::invalid_argument("unknown entry");
  if (block.entry == Entry::value) {
    if (scale.size() != 4) throw std::invalid_argument("a value has four numbers");
    block.low = scale[0];
    block.high = scale[1];
    block.middle = scale[2];
    block.half = scale[3];
  }
  return block;
}

Tally make_tally(const py::object& summand, double grid, const std::vector<Row>& rows,
                 std::size_t groups) {
  const Totals totals = read_whole(Fields(summand, "a summand"), read_totals);
  if (rows.size() != totals.cells.size() || groups < 1) {
    throw std::invalid_argument("blocks and their description differ");
  }
  std::vector<Block> blocks;
  blocks.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (totals.cells[i] % groups != 0) throw std::invalid_argument("cells are those of all groups");
    blocks.push_back(block_of(rows[i], totals.cells[i] / groups, totals.units[i] / grid));
  }
  return {std::move(blocks), groups};
}

// Sums of totals that a tally has bounded: each push is a whole interval.
mechanisms::ContinualSum make_interval_sum(const py::object& mechanism, const py::object& claim) {
  auto [sum, totals] = read_gaussian_sum(mechanism, read_totals);
  if (sum.batches.first != 1 || sum.batches.growth != Growth::none) {
    throw std::invalid_argument("a sum of intervals has no batches");
  }
  return mechanisms::make_sum(sum.settings, read_claim(claim));
}

}  // namespace

void register_tally(py::module_& m) {
  m.def("interval_sum", &make_interval_sum, "mechanism"_a, "claim"_a);
  py::class_<Tally>(m, "Tally")
      .def(py::init(&make_tally), "summand"_a, "grid"_a, "blocks"_a, "groups"_a)
      .def_property_readonly("size", &Tally::size)
      .def(
          "add",
          [](const Tally& self, const std::vector<Array>& columns,
             const std::optional<Codes>& group, const std::optional<Marks>& passed,
             std::size_t records, Cells& cells) {
            Columns read;
            read.records = records;
            for (const Array& column : columns) {
              expect_size(column, records, "a column");
              read.numbers.push_back(data(column));
            }
            const auto count = static_cast<py::ssize_t>(records);
            if ((group && group->size() != count) || (passed && passed->size() != count)) {
              throw std::invalid_argument("records have columns of several lengths");
            }
            if (group) read.group = group->data();
            if (passed) read.passed = reinterpret_cast<const std::uint8_t*>(passed->data());
            const std::span<std::int64_t> to{cells.mutable_data(),
                                             static_cast<std::size_t>(cells.size())};
            const py::gil_scoped_release nogil;
            self.add(read, to);
          },
          "columns"_a, "group"_a, "passed"_a, "records"_a, "cells"_a.noconvert());
}

}  // namespace dpoco::bindings
