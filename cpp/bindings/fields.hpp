#pragma once

#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "common.hpp"

namespace dpoco::bindings {

// Reads the description or settings of an engine, a dict or a frozen dataclass, field by field.
// Refuses one whose fields are not exactly those that the engine reads: every stated bound is
// enforced, and every enforced bound is stated. Messages contain names of fields and never values.
class Fields {
 public:
  // `what` names the owner of the fields in messages. Throws TypeError unless `from` is a dict or
  // dataclass.
  Fields(py::handle from, std::string what)
      : from_(py::reinterpret_borrow<py::object>(from)), what_(std::move(what)) {
    if (py::isinstance<py::dict>(from)) {
      is_dict_ = true;
      for (const auto& item : py::reinterpret_borrow<py::dict>(from)) {
        left_.insert(py::str(item.first).cast<std::string>());
      }
    } else if (py::hasattr(py::type::of(from), "__dataclass_fields__")) {
      for (const py::handle field : py::module_::import("dataclasses").attr("fields")(from)) {
        left_.insert(field.attr("name").cast<std::string>());
      }
    } else {
      throw py::type_error(what_ + " must be a dict or a dataclass");
    }
  }

  // Throws TypeError if the field is missing or has another type.
  template <class T>
  T read(const char* name) {
    if (left_.erase(name) == 0) throw py::type_error(what_ + ": field " + name + " is missing");
    const py::object value = is_dict_ ? py::object(from_[name]) : py::object(from_.attr(name));
    const auto wrong = [&] {
      return py::type_error(what_ + ": field " + name + " is of the wrong type");
    };
    // A conversion to a Python type would accept more, and quote a value that it cannot convert.
    if constexpr (std::is_base_of_v<py::object, T>) {
      if (!py::isinstance<T>(value)) throw wrong();
    }
    try {
      return value.cast<T>();
    } catch (const py::cast_error&) {
      throw wrong();
    }
  }
  template <class T>
  void read(const char* name, T& to) {
    to = read<T>(name);
  }
  // Reads a field whose value is one of several names. Throws ValueError for another name.
  template <class T>
  T read_name(const char* name, std::initializer_list<std::pair<const char*, T>> known) {
    const auto given = read<std::string>(name);
    for (const auto& [each, value] : known) {
      if (given == each) return value;
    }
    throw std::invalid_argument(what_ + ": unknown " + name);
  }
  // Opens a field that has fields itself.
  Fields open(const char* name, std::string what) {
    return {read<py::object>(name), std::move(what)};
  }

  // The kind of a description.
  std::string kind() const { return py::cast<std::string>(from_.attr("kind")); }
  // Throws TypeError for a description of another kind.
  void expect_kind(const char* expected) const {
    if (!py::hasattr(from_, "kind") || kind() != expected) {
      throw py::type_error(what_ + " must be a " + expected);
    }
  }
  // Reads a property, which a description computes from its fields.
  template <class T>
  T derive(const char* name) const {
    return from_.attr(name).cast<T>();
  }

  // Skips a field that is a constant of a proof, which an engine cannot enforce.
  void skip(const char* name) { read<py::object>(name); }

  bool has(const char* name) const { return left_.count(name) != 0; }
  // Throws TypeError if a field has not been read.
  void finish() const {
    if (left_.empty()) return;
    throw py::type_error(what_ + ": field " + *left_.begin() + " is not enforced by this engine");
  }

 private:
  py::object from_;
  std::string what_;
  bool is_dict_ = false;
  std::set<std::string> left_;
};

// Returns `read(fields)` and requires that it has read all fields.
template <class Read>
auto read_whole(Fields fields, Read read) {
  auto result = read(fields);
  fields.finish();
  return result;
}

}  // namespace dpoco::bindings
