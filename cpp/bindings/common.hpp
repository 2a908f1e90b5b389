#pragma once

// The one door to pybind11: all binding files see the same type casters.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"

namespace dpoco::bindings {

namespace py = pybind11;
using namespace pybind11::literals;

// The Python layer has checked dtype, shape and contiguity (`_validation.float_array`): pybind11's
// own errors would print the arguments. `noconvert` keeps a slip from copying silently.
using Array = py::array_t<double, py::array::c_style>;

inline const double* data(const Array& array) { return array.data(); }

inline std::span<const double> entries(const Array& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}
inline std::span<double> writable(Array& array) {
  return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

// The core asserts the sizes of its arguments in debug builds only.
inline void expect_size(const Array& array, std::size_t size, const char* name) {
  if (static_cast<std::size_t>(array.size()) != size) {
    throw std::invalid_argument(std::string(name) + " has the wrong number of entries");
  }
}

// A fresh array of n entries that `fill` writes and nobody may write after it.
template <class Fill>
Array read_only(py::ssize_t n, Fill fill) {
  Array out(n);
  fill(writable(out));
  py::detail::array_proxy(out.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return out;
}

inline Array make_array(std::span<const double> values) {
  return read_only(static_cast<py::ssize_t>(values.size()),
                   [&](std::span<double> out) { std::ranges::copy(values, out.begin()); });
}

template <class T>
py::bytes state_of(const T& object) {
  Archive archive;
  object.write(archive);
  return py::bytes(archive.take());
}

// For objects just built: a malformed state throws StateError and the object is dropped.
template <class T>
void restore(T& object, const py::bytes& state) {
  const std::string bytes = state;
  ArchiveReader reader(bytes);
  object.read(reader);
  reader.finish();
}

}  // namespace dpoco::bindings
