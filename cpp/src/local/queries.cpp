#include "dpoco/local/queries.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/local/losses.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::local {

Family family_from(const std::string& name) {
  if (name == "bisection") return Family::bisection;
  if (name == "scheffe") return Family::scheffe;
  if (name == "mean_test") return Family::mean_test;
  if (name == "hadamard") return Family::hadamard;
  if (name == "adaptive") return Family::adaptive;
  throw std::invalid_argument("unknown family of queries");
}

void pair_question(PublicCoins& coins, std::span<double> coefficients) noexcept {
  const std::size_t hypotheses = coefficients.size();
  std::ranges::fill(coefficients, 0.0);
  const std::uint64_t first = coins.below(hypotheses);
  const std::uint64_t other = coins.below(hypotheses - 1);
  coefficients[static_cast<std::size_t>(first)] = 1.0;
  coefficients[static_cast<std::size_t>(other + (other >= first ? 1 : 0))] = -1.0;
}

void threshold_question(Family family, PublicCoins coins, std::span<std::uint32_t> members,
                        std::span<double> coefficients) noexcept {
  const std::size_t hypotheses = coefficients.size();
  assert(members.size() == hypotheses);
  if (hypotheses == 1) {
    coefficients[0] = 0.0;
  } else if (family == Family::scheffe) {
    pair_question(coins, coefficients);
  } else if (family == Family::mean_test) {
    std::ranges::fill(coefficients, -1.0 / static_cast<double>(hypotheses));
    coefficients[static_cast<std::size_t>(coins.below(hypotheses))] += 1.0;
  } else {
    const std::size_t half = hypotheses / 2;
    coins.shuffle(hypotheses, half, members.data());
    std::ranges::fill(coefficients, -1.0 / static_cast<double>(hypotheses - half));
    for (std::size_t m = 0; m < half; ++m)
      coefficients[members[m]] = 1.0 / static_cast<double>(half);
  }
}

namespace {

// Labels per block: their sums stay in the first cache, whatever the number of labels.
constexpr std::size_t kBlock = 256;

}  // namespace

void threshold_values(std::span<const double> coefficients, std::span<const double> matrix,
                      std::size_t stride, std::span<double> phi) noexcept {
  std::ranges::fill(phi, 0.0);
  if (std::ranges::all_of(coefficients, [](double each) { return each == 0.0; })) return;
  for (std::size_t start = 0; start < phi.size(); start += kBlock) {
    const std::size_t count = std::min(kBlock, phi.size() - start);
    double* const sums = &phi[start];
    for (std::size_t j = 0; j < coefficients.size(); ++j) {
      const double* const row = &matrix[j * stride + start];
      const double c = coefficients[j];
      for (std::size_t i = 0; i < count; ++i) sums[i] += c * row[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double sign = sums[i] > 0.0 ? 1.0 : -1.0;
      sums[i] = std::isfinite(sums[i]) ? sign : 0.0;
    }
  }
}

void loss_values(const LossScale& scale, std::size_t hypotheses, std::span<const double> matrix,
                 std::size_t stride, std::span<double> phi) noexcept {
  double least[kBlock];
  double most[kBlock];
  const double keep = 1.0 - scale.mixing;
  const auto count_of_rows = static_cast<double>(hypotheses);
  for (std::size_t start = 0; start < phi.size(); start += kBlock) {
    const std::size_t count = std::min(kBlock, phi.size() - start);
    double* const sums = &phi[start];
    const double* const first = &matrix[start];
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] = 0.0 + first[i];
      least[i] = most[i] = first[i];
    }
    for (std::size_t j = 1; j < hypotheses; ++j) {
      const double* const row = &matrix[j * stride + start];
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += row[i];
        least[i] = row[i] < least[i] ? row[i] : least[i];
        most[i] = row[i] > most[i] ? row[i] : most[i];
      }
    }
    const double* const own = &matrix[scale.index * stride + start];
    for (std::size_t i = 0; i < count; ++i) {
      const double floor = scale.mixing * (sums[i] / count_of_rows);
      // Rounding is monotonic, so the extremes of the mixtures are the mixtures of the extremes.
      const double low = keep * least[i] + floor;
      const double high = keep * most[i] + floor;
      const double mine = keep * own[i] + floor;
      double value = 0.0;
      // Only extreme input fails the last two tests. Logarithms need normal numbers.
      if (floor > kSmallestMixed && low > kSmallestMixed && mine > kSmallestMixed &&
          std::isfinite(high + mine)) {
        const double centre = 0.5 * (elementary::log(high) + elementary::log(low));
        const double loss = centre - elementary::log(mine);
        value = (loss - scale.midpoint) / scale.half_range;
      }
      sums[i] = std::isfinite(value) ? std::min(std::max(value, -1.0), 1.0) : 0.0;
    }
  }
}

}  // namespace dpoco::local
