#pragma once

#include "common.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

// What the Python layer passes for every learner of experts.
inline experts::ExpertSettings expert_settings(const py::dict& settings) {
  return {.experts = settings["experts"].cast<std::uint64_t>(),
          .horizon = settings["rounds"].cast<std::uint64_t>(),
          .range = {settings["low"].cast<double>(), settings["high"].cast<double>()}};
}

inline std::unique_ptr<random::Source> expert_source(const py::dict& settings) {
  return make_source(settings["key"].cast<py::bytes>(), settings["stream"].cast<std::uint64_t>());
}

}  // namespace dpoco::bindings
