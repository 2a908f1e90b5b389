#include "settings.hpp"

#include <vector>

#include "registrars.hpp"

namespace dpoco::bindings {

using mechanisms::Factorisation;

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
                       {"blt_normalised", Factorisation::blt_normalised}}),
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
    return mechanisms::make_sum(settings, read_source(own), std::move(clipper));
  });
}

mechanisms::SwitchSettings read_switches(Fields& from, std::uint64_t rounds, const char* cap) {
  const auto most = from.read<std::optional<std::uint64_t>>(cap);
  return {.horizon = rounds,
          .block = from.read<std::uint64_t>("block"),
          .forced = from.read<double>("forced_switch"),
          .max_switches = most.value_or(mechanisms::SwitchSettings::kNoCap)};
}

bandits::BanditSettings read_bandit(Fields& from) {
  return {.arms = from.read<std::uint64_t>("arms"),
          .horizon = from.read<std::uint64_t>("rounds"),
          .reward_low = from.read<double>("reward_low"),
          .reward_high = from.read<double>("reward_high")};
}

}  // namespace dpoco::bindings
