#pragma once

#include "dpoco/mechanisms/switch_rule.hpp"
#include "loss_sums.hpp"

namespace dpoco::bindings {

inline mechanisms::SwitchSettings switch_settings(const py::dict& settings) {
  const py::object cap = settings["max_switches"];  // None: no cap
  return {.horizon = settings["rounds"].cast<std::uint64_t>(),
          .block = settings["block"].cast<std::uint64_t>(),
          .forced = settings["forced_switch"].cast<double>(),
          .max_switches =
              cap.is_none() ? mechanisms::SwitchSettings::kNoCap : cap.cast<std::uint64_t>()};
}

}  // namespace dpoco::bindings
