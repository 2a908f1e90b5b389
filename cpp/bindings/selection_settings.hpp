#pragma once

#include <stdexcept>
#include <string>

#include "common.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"

namespace dpoco::bindings {

// What the Python layer passes for the mechanisms of selection, alone or inside a learner.
inline mechanisms::NoisyMaxSettings noisy_max_settings(const py::dict& settings) {
  const auto name = settings["noise"].cast<std::string>();
  mechanisms::SelectionNoise noise{};
  if (name == "exponential") {
    noise = mechanisms::SelectionNoise::exponential;
  } else if (name == "gumbel") {
    noise = mechanisms::SelectionNoise::gumbel;
  } else if (name == "laplace") {
    noise = mechanisms::SelectionNoise::laplace;
  } else {
    throw std::invalid_argument("unknown noise of a selection");
  }
  return {.candidates = settings["candidates"].cast<std::uint64_t>(),
          .scale = settings["scale"].cast<double>(),
          .noise = noise,
          .largest = settings["largest"].cast<bool>()};
}

inline mechanisms::AboveThresholdSettings above_threshold_settings(const py::dict& settings) {
  const auto name = settings["noise"].cast<std::string>();
  if (name != "exponential" && name != "laplace") {
    throw std::invalid_argument("unknown noise of a threshold");
  }
  return {.threshold_scale = settings["threshold_scale"].cast<double>(),
          .query_scale = settings["query_scale"].cast<double>(),
          .noise = name == "laplace" ? mechanisms::ThresholdNoise::laplace
                                     : mechanisms::ThresholdNoise::exponential,
          .alarms = settings["alarms"].cast<std::uint64_t>()};
}

}  // namespace dpoco::bindings
