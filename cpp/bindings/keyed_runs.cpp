#include "keyed_runs.hpp"

#include <algorithm>
#include <utility>

#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

py::array_t<std::int64_t> whole_numbers(const std::vector<std::int64_t>& values) {
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

// Returns the number of a key; -1 if it has none. Keys may run their own Python code.
std::int64_t number_of_key(const py::dict& numbers, const py::object& key) {
  PyObject* number = PyDict_GetItemWithError(numbers.ptr(), key.ptr());
  if (number == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number == nullptr ? -1 : py::cast<std::int64_t>(number);
}

// Groups the rows of a batch by key. Returns the numbers of the keys, increasing; the offsets of
// each key's rows; the rows, grouped by key and in their order within a key; and the new keys, in
// the order of their first rows. New keys get the numbers after those in use. O(n log n).
py::tuple group_rows(const py::dict& numbers, const py::list& keys) {
  const std::size_t n = keys.size();
  const auto known = static_cast<std::int64_t>(numbers.size());
  py::dict more;
  py::list fresh;
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // pairs of key number and row
  order.reserve(n);
  for (std::size_t row = 0; row < n; ++row) {
    const py::object key = keys[row];
    std::int64_t number = number_of_key(numbers, key);
    if (number < 0) number = number_of_key(more, key);
    if (number < 0) {
      number = known + static_cast<std::int64_t>(fresh.size());
      more[key] = number;
      fresh.append(key);
    }
    order.emplace_back(number, row);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> slots, offsets, rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i] = order[i].second;
    if (i > 0 && order[i].first == order[i - 1].first) continue;
    slots.push_back(order[i].first);
    offsets.push_back(static_cast<std::int64_t>(i));
  }
  offsets.push_back(static_cast<std::int64_t>(n));
  return py::make_tuple(whole_numbers(slots), whole_numbers(offsets), whole_numbers(rows), fresh);
}

}  // namespace

void register_keyed_runs(py::module_& m) { m.def("group_rows", &group_rows); }

}  // namespace dpoco::bindings
