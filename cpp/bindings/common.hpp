#pragma once

// The only include of pybind11, so that all binding files see the same type casters.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"

namespace dpoco::bindings {

namespace py = pybind11;
using namespace pybind11::literals;

// The Python layer has checked dtype, shape and contiguity (`_validation.float_array`), and passes
// arguments by position, as `_core.pyi` names them, because errors of pybind11 would print them.
// For an array_t, pybind11 would convert an argument and silently copy it; this type takes it
// unchanged.
template <class T>
class Plain : public py::array_t<T, py::array::c_style> {
 public:
  using py::array_t<T, py::array::c_style>::array_t;
};
using Array = Plain<double>;
using Integers = Plain<std::int64_t>;

template <class T>
std::span<const T> entries(const Plain<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}
template <class T>
std::span<T> writable(Plain<T>& array) {
  return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

// Spans over arrays of any shape.
using Reals = std::span<const double>;
using RealsOut = std::span<double>;

// Checks a size at the boundary. The core only asserts sizes, in debug builds.
template <class Entries>
void expect_size(const Entries& given, std::size_t size, const char* name) {
  if (static_cast<std::size_t>(given.size()) != size) {
    throw std::invalid_argument(std::string(name) + " has the wrong number of entries");
  }
}

// Returns a new, read-only array of n entries that `fill` writes.
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

// A method without arguments that returns such an array: `fill(self, span)` writes `size(self)`
// entries.
template <class T, class Size, class Fill>
auto array_getter(Size size, Fill fill) {
  return [=](T& self) {
    return read_only(static_cast<py::ssize_t>(std::invoke(size, self)),
                     [&](std::span<double> out) { std::invoke(fill, self, out); });
  };
}

template <class T>
py::bytes state_of(const T& object) {
  Archive archive;
  object.write(archive);
  return py::bytes(archive.take());
}

// For newly built objects: a malformed state throws StateError, and the object is dropped.
template <class T>
void restore(T& object, const py::bytes& state) {
  const std::string bytes = state;
  ArchiveReader reader(bytes);
  object.read(reader);
  reader.finish();
}

}  // namespace dpoco::bindings

// Converts an argument to a span over an array of this type, without a copy. The caller owns the
// array.
template <class T>
struct pybind11::detail::type_caster<std::span<T>> {
  using Held = dpoco::bindings::Plain<std::remove_const_t<T>>;
  PYBIND11_TYPE_CASTER(std::span<T>, const_name("numpy.ndarray"));

  bool load(handle from, bool) {
    if (!isinstance<Held>(from)) return false;
    auto held = reinterpret_borrow<Held>(from);
    if constexpr (std::is_const_v<T>) {
      value = dpoco::bindings::entries(held);
    } else {
      value = dpoco::bindings::writable(held);
    }
    return true;
  }
};
