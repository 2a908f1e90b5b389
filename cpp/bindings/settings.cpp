#include "settings.hpp"

#include <optional>

#include "registrars.hpp"

namespace dpoco::bindings {

using mechanisms::SelectionNoise;
using mechanisms::ThresholdNoise;

std::unique_ptr<random::Source> read_source(Fields& from) {
  const auto key = from.read<py::bytes>("key");
  return make_source(key, from.read<std::uint64_t>("stream"));
}

mechanisms::NoisyMaxSettings read_noisy_max(Fields& from) {
  return {.candidates = from.read<std::uint64_t>("candidates"),
          .scale = from.read<double>("scale"),
          .noise =
              from.read_name<SelectionNoise>("noise", {{"exponential", SelectionNoise::exponential},
                                                       {"gumbel", SelectionNoise::gumbel},
                                                       {"laplace", SelectionNoise::laplace}}),
          .largest = from.read<bool>("largest")};
}

mechanisms::AboveThresholdSettings read_above_threshold(Fields& from) {
  return {.threshold_scale = from.read<double>("threshold_scale"),
          .query_scale = from.read<double>("query_scale"),
          .noise = from.read_name<ThresholdNoise>(
              "noise",
              {{"exponential", ThresholdNoise::exponential}, {"laplace", ThresholdNoise::laplace}}),
          .alarms = from.read<std::uint64_t>("alarms")};
}

mechanisms::SwitchSettings read_switches(Fields& from, std::uint64_t rounds, const char* cap) {
  const auto most = from.read<std::optional<std::uint64_t>>(cap);
  return {.horizon = rounds,
          .block = from.read<std::uint64_t>("block"),
          .forced = from.read<double>("forced_switch"),
          .max_switches = most.value_or(mechanisms::SwitchSettings::kNoCap)};
}

experts::ExpertSettings read_experts(Fields& from) {
  return {.experts = from.read<std::uint64_t>("experts"),
          .horizon = from.read<std::uint64_t>("rounds"),
          .range = {from.read<double>("low"), from.read<double>("high")}};
}

}  // namespace dpoco::bindings
