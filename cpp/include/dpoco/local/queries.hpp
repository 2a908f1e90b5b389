#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dpoco/local/public_coins.hpp"

namespace dpoco::local {

// Values phi(y) of public queries, in [-1, 1]. A value that is NaN or infinite becomes 0, so that
// no public number can take a report's law out of its bounds. Row j of `matrix` starts at j stride
// and has F[j, y] for as many labels as phi has. A single label gives the same bits as all labels
// together, so devices and server agree. No allocation.

// +1 where sum_j c_j F[j, y] > 0, added in the order of j, else -1; all 0 if all c_j are 0.
void threshold_values(std::span<const double> coefficients, std::span<const double> matrix,
                      std::size_t stride, std::span<double> phi) noexcept;

// Families of public questions.
enum class Family { bisection, scheffe, mean_test, hadamard, adaptive };

// Throws std::invalid_argument for another name.
Family family_from(const std::string& name);

// Coefficients of a threshold question of the first three families, from public coins alone; zeros
// if there is only one hypothesis and so no question. members: one integer per hypothesis,
// overwritten.
void threshold_question(Family family, PublicCoins coins, std::span<std::uint32_t> members,
                        std::span<double> coefficients) noexcept;
// +1 where one random hypothesis exceeds another, else -1. Needs at least two hypotheses.
void pair_question(PublicCoins& coins, std::span<double> coefficients) noexcept;

// One loss of losses.hpp, scaled: (u_index(y) - midpoint) / half_range.
struct LossScale {
  std::size_t index;
  double midpoint;
  double half_range;
  double mixing;
};
void loss_values(const LossScale& scale, std::size_t hypotheses, std::span<const double> matrix,
                 std::size_t stride, std::span<double> phi) noexcept;

}  // namespace dpoco::local
