#pragma once

#include "common.hpp"
#include "dpoco/bandits/bandit_learner.hpp"

namespace dpoco::bindings {

// What the Python layer passes for every bandit.
inline bandits::BanditSettings bandit_settings(const py::dict& settings) {
  return {.arms = settings["arms"].cast<std::uint64_t>(),
          .horizon = settings["rounds"].cast<std::uint64_t>(),
          .reward_low = settings["reward_low"].cast<double>(),
          .reward_high = settings["reward_high"].cast<double>()};
}

}  // namespace dpoco::bindings
