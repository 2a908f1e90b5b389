#include "dpoco/experts/shift_statistic.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/grid.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::experts {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLines = 64;
constexpr std::uint64_t kLongestReach = 1ULL << 50;
// A steeper line is never above zero, and would cost the last bits of losses.
constexpr double kSteepest = 4.0;

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

ShiftStatistic::ShiftStatistic(ShiftStatisticSettings settings) : settings_(std::move(settings)) {
  const std::size_t lines = settings_.offsets.size();
  const bool dyadic = settings_.windows == Windows::dyadic;
  if (settings_.experts < 1) throw std::invalid_argument("experts must be at least 1");
  if (lines < 1 || lines > kMostLines || settings_.slopes.size() != (dyadic ? 0 : lines) ||
      !all_finite(settings_.offsets) || !all_finite(settings_.slopes)) {
    throw std::invalid_argument("the allowance must be 1 to 64 finite lines");
  }
  const std::uint64_t reach = settings_.reach;
  if (!std::has_single_bit(reach) || reach > kLongestReach) {
    throw std::invalid_argument("reach must be a power of two of at most 2^50");
  }
  grid_ = std::max(0x1p-46, std::ldexp(static_cast<double>(reach), -51));
  for (double& offset : settings_.offsets) offset = nearest_multiple(offset, grid_);
  for (double& slope : settings_.slopes) {
    slope = nearest_multiple(std::clamp(slope, 0.0, kSteepest), grid_);
  }
  const std::size_t n = settings_.experts;
  losses_.assign(n, 0.0);
  if (settings_.windows == Windows::tangent) rows_.assign(lines * n, kNever);
  if (dyadic) {
    const auto blocks = static_cast<std::size_t>(std::bit_width(reach));
    settings_.offsets.resize(std::min(lines, blocks));
    rows_.assign((settings_.offsets.size() + 1) * n, 0.0);
    allowances_.assign(settings_.offsets.size(), 0.0);
  }
  reset();
}

void ShiftStatistic::reset() noexcept {
  round_ = 0;
  if (settings_.windows == Windows::naive) {
    rows_.clear();
    allowances_.clear();
  } else {
    // Before the first round there is no window: the maximum is minus infinity, or the sums are 0.
    const double start = settings_.windows == Windows::tangent ? kNever : 0.0;
    std::fill(rows_.begin(), rows_.end(), start);
    std::fill(allowances_.begin(), allowances_.end(), 0.0);
  }
}

double ShiftStatistic::update(std::uint64_t own, std::span<const double> losses, double allowance) {
  ++round_;
  // Adding and subtracting 1.5 * 2^52 grid units rounds to the nearest multiple.
  const double shift = elementary::kRoundMagic * grid_;
  const simd::Kernels& k = simd::kernels();
  assert(losses.size() == losses_.size());
  k.affine(1.0, losses.data(), shift, losses_.size(), losses_.data());
  k.affine(1.0, losses_.data(), -shift, losses_.size(), losses_.data());
  const double own_loss = losses_[own];
  const double allowed = nearest_multiple(allowance, grid_);
  switch (settings_.windows) {
    case Windows::tangent:
      return update_tangent(own_loss - allowed, losses_);
    case Windows::dyadic:
      return update_dyadic(own_loss, losses_, allowed);
    default:
      return update_naive(own_loss, losses_, allowed);
  }
}

double ShiftStatistic::update_tangent(double gain, std::span<const double> losses) {
  const auto cusum = simd::kernels().cusum;
  const std::size_t n = settings_.experts;
  const auto reach = static_cast<double>(settings_.reach);
  double most = kNever;
  for (std::size_t k = 0; k < settings_.offsets.size(); ++k) {
    const double row = cusum(gain - settings_.slopes[k], losses.data(), n, rows_.data() + k * n);
    most = std::max(most, std::min(row, reach) - settings_.offsets[k]);
  }
  if (round_ > settings_.reach) {  // no sum exceeds its number of rounds
    for (double& row : rows_) row = std::min(row, reach);
  }
  return most;
}

double ShiftStatistic::update_dyadic(double own_loss, std::span<const double> losses,
                                     double allowance) {
  const std::size_t n = settings_.experts;
  const std::size_t levels = settings_.offsets.size();
  double* block = rows_.data() + levels * n;
  simd::kernels().affine(-1.0, losses.data(), own_loss, n, block);
  double most = kNever;
  // The blocks that end now have 1, 2, 4, ... rounds. Each but the longest is a right half.
  for (std::size_t k = 0; k < levels; ++k) {
    double* left = rows_.data() + k * n;
    most = std::max(most, *std::max_element(block, block + n) - allowance - settings_.offsets[k]);
    if ((round_ >> k & 1) != 0) {
      std::copy(block, block + n, left);
      allowances_[k] = allowance;
      break;
    }
    simd::kernels().axpy(1.0, left, n, block);
    allowance += allowances_[k];
  }
  return most;
}

double ShiftStatistic::update_naive(double own_loss, std::span<const double> losses,
                                    double allowance) {
  const std::size_t n = settings_.experts;
  const std::size_t now = rows_.size();
  rows_.resize(now + n);
  for (std::size_t j = 0; j < n; ++j) {
    rows_[now + j] = (now > 0 ? rows_[now - n + j] : 0.0) + (own_loss - losses[j]);
  }
  allowances_.push_back((allowances_.empty() ? 0.0 : allowances_.back()) + allowance);
  double most = kNever;
  for (std::uint64_t start = 0; start < round_; ++start) {
    const auto length = static_cast<double>(round_ - start);
    double allowed = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < settings_.offsets.size(); ++k) {
      allowed = std::min(allowed, settings_.offsets[k] + settings_.slopes[k] * length);
    }
    const double before = start > 0 ? allowances_[start - 1] : 0.0;
    allowed += allowances_.back() - before;
    for (std::size_t j = 0; j < n; ++j) {
      const double lost = rows_[now + j] - (start > 0 ? rows_[(start - 1) * n + j] : 0.0);
      most = std::max(most, lost - allowed);
    }
  }
  return most;
}

void ShiftStatistic::write(Archive& archive) const {
  archive.word(round_);
  if (settings_.windows == Windows::naive) {
    const std::size_t n = settings_.experts;
    for (std::size_t at = 0; at < rows_.size(); at += n) {
      archive.reals(std::span(rows_).subspan(at, n));
    }
  } else {
    archive.reals(rows_);
  }
  archive.reals(allowances_);
}

void ShiftStatistic::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word();
  if (settings_.windows == Windows::naive) {
    // Reads row by row, so that a wrong number of rows ends at the end of the data, not in a huge
    // allocation.
    rows_.clear();
    for (std::uint64_t i = 0; i < round; ++i) {
      rows_.resize(rows_.size() + settings_.experts);
      archive.reals(std::span(rows_).last(settings_.experts));
    }
    allowances_.assign(round, 0.0);
  } else {
    archive.reals(rows_);
  }
  archive.reals(allowances_);
  round_ = round;
  if (!is_plausible()) throw StateError("state holds an impossible statistic");
}

bool ShiftStatistic::is_plausible() const {
  // Rows are sums of differences of losses, and allowances_ are sums of allowances in [0, 1]. All
  // are multiples of the grid, and tangent windows cut sums off.
  const bool cut_off = settings_.windows == Windows::tangent;
  const auto most = static_cast<double>(cut_off ? std::min(round_, settings_.reach) : round_);
  const auto on_grid = [this](double x) { return nearest_multiple(x, grid_) == x; };
  const bool fresh = settings_.windows == Windows::tangent && round_ == 0;
  return std::all_of(rows_.begin(), rows_.end(),
                     [&](double x) {
                       return fresh ? x == kNever : std::isfinite(x) && x <= most && on_grid(x);
                     }) &&
         std::all_of(allowances_.begin(), allowances_.end(),
                     [&](double x) { return x >= 0.0 && x <= most && on_grid(x); });
}

}  // namespace dpoco::experts
