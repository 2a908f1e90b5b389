#pragma once

#include <vector>

#include "common.hpp"
#include "dpoco/random/source.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

// Calls use(source, i) with each generator of a learner or mechanism. Most have one.
template <class T, class Use>
void for_each_source(T& object, Use use) {
  if constexpr (requires { object.sources(); }) {
    for (std::size_t i = 0; i < object.sources(); ++i) use(object.source(i), i);
  } else {
    use(object.source(), std::size_t{0});
  }
}

// The numbers of variates of each kind that the generators have drawn.
template <class T>
std::vector<std::uint64_t> variates_drawn(const T& self) {
  std::vector<std::uint64_t> positions(random::kVariates, 0);
  for_each_source(self, [&](const random::Source& source, std::size_t) {
    for (unsigned kind = 0; kind < random::kVariates; ++kind) {
      positions[kind] += source.position(static_cast<random::Variate>(kind));
    }
  });
  return positions;
}

// The methods that `dpoco.learning.learner` and `dpoco.learning.state` need of every compiled class
// that draws noise.
template <class T, class... Rest>
void bind_rounds(py::class_<T, Rest...>& bound) {
  bound.def_property_readonly("round", &T::round)
      .def("variates_drawn", &variates_drawn<T>)
      .def("check_process",
           [](const T& self) {
             for_each_source(
                 self, [](const random::Source& source, std::size_t) { source.check_process(); });
           })
      .def("adopt",
           [](T& self) {
             for_each_source(self, [](random::Source& source, std::size_t) { source.adopt(); });
           })
      .def("rekey",
           [](T& self, const py::bytes& key, std::uint64_t stream) {
             // Each generator gets one stream of the new key, numbered from the given one.
             for_each_source(self, [&](random::Source& source, std::size_t i) {
               source.rekey(key_from(key), stream + i);
             });
           })
      .def("state", &state_of<T>)
      .def("restore", &restore<T>);
}

}  // namespace dpoco::bindings
