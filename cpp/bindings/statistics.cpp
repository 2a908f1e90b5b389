#include <optional>
#include <tuple>

#include "dpoco/statistics/tally.hpp"
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

// Entry, column, cells, unit; low, high, middle, half; edges.
using Row = std::tuple<std::string, std::size_t, std::size_t, double, std::vector<double>,
                       std::vector<double>>;

Block block_of(const Row& row) {
  const auto& [name, column, cells, unit, scale, edges] = row;
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

}  // namespace

void register_tally(py::module_& m) {
  py::class_<Tally>(m, "Tally")
      .def(py::init([](const std::vector<Row>& rows, std::size_t groups) {
             std::vector<Block> blocks;
             blocks.reserve(rows.size());
             for (const Row& row : rows) blocks.push_back(block_of(row));
             return Tally(std::move(blocks), groups);
           }),
           "blocks"_a, "groups"_a)
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
