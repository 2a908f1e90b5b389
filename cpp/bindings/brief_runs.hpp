#pragma once

#include <algorithm>
#include <cstdint>

#include "common.hpp"

// Helpers of short runs and single calls, whose cost is that of the call itself. pybind11 has no
// public names for the type `ndarray` and for the flag of read-only arrays.
namespace dpoco::bindings {

inline void freeze(const py::handle& array) {
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
}

// Returns whether an object is an array of doubles that the engine can read without conversion,
// with this number of dimensions.
inline bool is_plain(py::handle value, py::ssize_t dimensions) {
  static const PyTypeObject* const numpy = py::detail::npy_api::get().PyArray_Type_;
  if (Py_TYPE(value.ptr()) != numpy) return false;
  const auto array = py::reinterpret_borrow<py::array>(value);
  return array.dtype().num() == py::dtype::num_of<double>() && array.dtype().byteorder() == '=' &&
         array.ndim() == dimensions && (array.flags() & py::array::c_style) != 0 &&
         reinterpret_cast<std::uintptr_t>(array.data()) % alignof(double) == 0;
}

// The rounds whose flag is set, as an array.
inline Integers rounds_with(std::span<const std::uint8_t> flags) {
  Integers found(std::ranges::count(flags, 1));
  auto to = writable(found).begin();
  for (std::size_t t = 0; t < flags.size(); ++t) {
    if (flags[t] != 0) *to++ = static_cast<std::int64_t>(t);
  }
  return found;
}

}  // namespace dpoco::bindings
