#include "settings.hpp"

#include <vector>

#include "registrars.hpp"

namespace dpoco::bindings {

using mechanisms::Factorisation;
using mechanisms::SelectionNoise;
using mechanisms::ThresholdNoise;

std::unique_ptr<random::Source> read_source(Fields& from) {
  const auto key = from.read<py::bytes>("key");
  return make_source(key, from.read<std::uint64_t>("stream"));
}

mechanisms::ContinualSum make_continual_sum(Fields from,
                                            std::optional<losses::RecordClipper> clipper) {
  return read_whole(std::move(from), [&](Fields& own) {
    mechanisms::SumSettings settings{
        .dimension = own.read<Index>("dimension"),
        .horizon = own.read<std::uint64_t>("horizon"),
        .factorisation = own.read_name<Factorisation>(
            "method", {{"tree", Factorisation::tree},
                       {"toeplitz", Factorisation::toeplitz},
                       {"blt", Factorisation::blt},
                       {"blt_normalised", Factorisation::blt_normalised},
                       {"banded", Factorisation::banded}}),
        .order = own.read<double>("order"),
        .scale = own.read<double>("scale"),
        .lattice = {.grid = own.read<double>("grid"), .limit = own.read<double>("limit")},
        .blt = {}};
    const bool normalised = settings.factorisation == Factorisation::blt_normalised;
    if (normalised || settings.factorisation == Factorisation::blt) {
      settings.blt = {.decay = own.read<std::vector<double>>("decay"),
                      .omega = own.read<std::vector<double>>("omega")};
    }
    if (normalised) {
      settings.blt.ends = own.read<std::vector<std::uint64_t>>("ends");
      settings.blt.levels = own.read<std::vector<double>>("levels");
    }
    if (settings.factorisation == Factorisation::banded) {
      settings.band = {.coefficients = own.read<std::vector<double>>("coefficients"),
                       .levels = own.read<std::vector<double>>("levels")};
    }
    return mechanisms::make_sum(settings, read_source(own), std::move(clipper));
  });
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

bandits::BanditSettings read_bandit(Fields& from) {
  return {.arms = from.read<std::uint64_t>("arms"),
          .horizon = from.read<std::uint64_t>("rounds"),
          .reward_low = from.read<double>("reward_low"),
          .reward_high = from.read<double>("reward_high")};
}

}  // namespace dpoco::bindings
