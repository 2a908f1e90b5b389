#pragma once

#include <vector>

#include "dpoco/experts/shift_statistic.hpp"
#include "fields.hpp"

namespace dpoco::bindings {

inline experts::ShiftStatisticSettings read_shift_statistic(Fields from) {
  using experts::Windows;
  return read_whole(std::move(from), [](Fields& own) {
    return experts::ShiftStatisticSettings{
        .experts = own.read<std::uint64_t>("experts"),
        .windows = own.read_name<Windows>("windows", {{"tangent", Windows::tangent},
                                                      {"dyadic", Windows::dyadic},
                                                      {"naive", Windows::naive}}),
        .offsets = own.read<std::vector<double>>("offsets"),
        .slopes = own.read<std::vector<double>>("slopes"),
        .reach = own.read<std::uint64_t>("reach")};
  });
}

}  // namespace dpoco::bindings
