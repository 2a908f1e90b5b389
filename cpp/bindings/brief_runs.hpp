#pragma once

#include <algorithm>
#include <cstdint>

#include "common.hpp"

// What runs of a few rounds take: their cost is that of the call.
namespace dpoco::bindings {

inline void freeze(const py::handle& array) {
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
}

// Whether an object is just an array of doubles, as the engine reads them, with these dimensions.
inline bool is_plain(const py::object& value, py::ssize_t dimensions) {
  const auto& api = py::detail::npy_api::get();
  if (Py_TYPE(value.ptr()) != api.PyArray_Type_ || !py::isinstance<Array>(value)) return false;
  const auto* array = py::detail::array_proxy(value.ptr());
  return array->nd == dimensions && (array->flags & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
}

// The rounds whose flag is set.
inline Integers rounds_with(std::span<const std::uint8_t> flags) {
  Integers found(std::ranges::count(flags, 1));
  auto to = writable(found).begin();
  for (std::size_t t = 0; t < flags.size(); ++t) {
    if (flags[t] != 0) *to++ = static_cast<std::int64_t>(t);
  }
  return found;
}

}  // namespace dpoco::bindings
