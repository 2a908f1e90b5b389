#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "dpoco/random/source.hpp"
#include "dpoco/statistics/tally.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

namespace {

using statistics::Block;
using statistics::Columns;
using statistics::Entry;
using statistics::Tally;

using Codes = Plain<std::int32_t>;
using Cells = std::span<std::int64_t>;

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

// Collects the columns of single records until they are added up. Takes dictionaries with plain
// numbers and texts, the most frequent case. dpoco.statistics._columns reads all other records and
// passes them to `enter`.
class Recorder {
 public:
  // Names of columns, and of columns to group by with the codes of their values; none for numbers.
  using Names = std::vector<std::pair<py::object, std::optional<py::dict>>>;

  Recorder(Names columns, Names by, std::size_t room)
      : columns_(std::move(columns)), by_(std::move(by)), room_(room), row_(columns_.size()) {
    numbers_.resize(columns_.size());
    adopt();
  }

  void adopt() { generation_ = random::fork_generation(); }
  void close() { room_ = 0; }
  [[nodiscard]] std::size_t size() const { return groups_.size(); }

  // Returns whether it took the record. If not, nothing has changed.
  bool take(const py::handle& record) {
    if (groups_.size() >= room_ || !PyDict_CheckExact(record.ptr()) ||
        generation_ != random::fork_generation()) {
      return false;
    }
    std::size_t at = 0;
    for (const auto& column : columns_) {
      if (!read(record, column, row_[at++])) return false;
    }
    std::int32_t group = 0;
    for (const auto& column : by_) {
      const auto others = static_cast<std::int32_t>(column.second->size());
      double code = 0.0;
      if (!read(record, column, code)) return false;
      group = group * (others + 1) + (std::isnan(code) ? others : static_cast<std::int32_t>(code));
    }
    append(group);
    return true;
  }

  // Enters a record that Python has read.
  void enter(const std::vector<double>& row, std::int32_t group) {
    if (row.size() != row_.size()) throw std::invalid_argument("a record of another shape");
    row_ = row;
    append(group);
  }

  // Returns the columns and groups of all collected records, and starts again without records.
  py::tuple flush() {
    py::list columns;
    for (auto& numbers : numbers_) {
      columns.append(Array(static_cast<py::ssize_t>(numbers.size()), numbers.data()));
      numbers.clear();
    }
    py::object groups = py::none();
    if (!by_.empty()) {
      groups = Codes(static_cast<py::ssize_t>(groups_.size()), groups_.data());
    }
    groups_.clear();
    return py::make_tuple(columns, groups);
  }

 private:
  using Name = Names::value_type;

  void append(std::int32_t group) {
    for (std::size_t i = 0; i < row_.size(); ++i) numbers_[i].push_back(row_[i]);
    groups_.push_back(group);
  }

  static PyObject* find(PyObject* dict, PyObject* key) {
    PyObject* found = PyDict_GetItemWithError(dict, key);
    if (found == nullptr) PyErr_Clear();
    return found;
  }

  static bool read(const py::handle& record, const Name& column, double& number) {
    PyObject* value = find(record.ptr(), column.first.ptr());
    if (value == nullptr) return false;
    if (value == Py_None) {
      number = std::numeric_limits<double>::quiet_NaN();
      return true;
    }
    if (!column.second) {
      if (PyFloat_CheckExact(value)) {
        number = PyFloat_AS_DOUBLE(value);
        return true;
      }
      if (!PyLong_CheckExact(value) && !PyBool_Check(value)) return false;
      number = PyLong_AsDouble(value);
      const bool fits = number != -1.0 || PyErr_Occurred() == nullptr;
      if (!fits) PyErr_Clear();
      return fits;
    }
    if (!PyUnicode_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value)) {
      return false;
    }
    PyObject* code = find(column.second->ptr(), value);
    number = code == nullptr ? static_cast<double>(column.second->size()) : PyLong_AsDouble(code);
    return true;
  }

  Names columns_, by_;
  std::size_t room_;
  std::uint64_t generation_ = 0;
  std::vector<double> row_;
  std::vector<std::vector<double>> numbers_;
  std::vector<std::int32_t> groups_;
};

}  // namespace

void register_tally(py::module_& m) {
  py::class_<Tally>(m, "Tally")
      .def(py::init([](const std::vector<Row>& rows, std::size_t groups) {
        std::vector<Block> blocks;
        blocks.reserve(rows.size());
        for (const Row& row : rows) blocks.push_back(block_of(row));
        return Tally(std::move(blocks), groups);
      }))
      .def_property_readonly("size", &Tally::size)
      .def(
          "add",
          [](const Tally& self, std::vector<Reals> columns,
             const std::optional<std::span<const std::int32_t>>& group,
             const std::optional<std::span<const bool>>& passed, std::size_t records, Cells cells) {
            for (const Reals column : columns) expect_size(column, records, "a column");
            if ((group && group->size() != records) || (passed && passed->size() != records)) {
              throw std::invalid_argument("records have columns of several lengths");
            }
            Columns read;
            read.numbers = std::move(columns);
            read.records = records;
            if (group) read.group = *group;
            if (passed) {
              read.passed = {reinterpret_cast<const std::uint8_t*>(passed->data()), records};
            }
            const py::gil_scoped_release nogil;
            self.add(read, cells);
          })
      .def("take", [](const Tally& self, Cells cells, std::int64_t limit, double grid) {
        Array out(static_cast<py::ssize_t>(self.size()));
        self.take(cells, limit, grid, writable(out));
        return out;
      });
  py::class_<Recorder>(m, "Recorder")
      .def(py::init<Recorder::Names, Recorder::Names, std::size_t>())
      .def_property_readonly("size", &Recorder::size)
      .def("adopt", &Recorder::adopt)
      .def("close", &Recorder::close)
      .def("take", &Recorder::take)
      .def("enter", &Recorder::enter)
      .def("flush", &Recorder::flush);
}

}  // namespace dpoco::bindings
