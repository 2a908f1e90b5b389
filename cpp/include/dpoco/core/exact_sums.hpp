#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco {

// Sums of losses in [0, 1], exact for 2^53 rounds: losses are rounded to multiples of 2^-46, and
// whole numbers move from the recent part, below 128, to a separate part.
class ExactSums {
 public:
  explicit ExactSums(std::size_t n) : whole_(n, 0.0), recent_(n, 0.0) {}

  void clear() noexcept {
    std::fill(whole_.begin(), whole_.end(), 0.0);
    std::fill(recent_.begin(), recent_.end(), 0.0);
    offset_ = 0.0;
    since_carry_ = 0;
  }

  static void round(std::span<const double> losses, std::span<double> out) {
    assert(out.size() == losses.size());
    constexpr double kShift = 96.0;  // 1.5 * 2^52 * 2^-46
    const simd::Kernels& k = simd::kernels();
    k.affine(1.0, losses.data(), kShift, out.size(), out.data());
    k.affine(1.0, out.data(), -kShift, out.size(), out.data());
  }

  void add(std::span<const double> rounded) {
    assert(rounded.size() == recent_.size());
    const simd::Kernels& k = simd::kernels();
    k.axpy(1.0, rounded.data(), recent_.size(), recent_.data());
    count();
  }
  // As `add`, for losses that are not rounded yet.
  void add_rounding(std::span<const double> losses) {
    assert(losses.size() == recent_.size());
    simd::kernels().accumulate_rounded(1.0, losses.data(), kGrid, 1.0, recent_.size(),
                                       recent_.data());
    count();
  }
  // The largest number of rounds that `add_rounds` takes.
  std::uint64_t until_carry() const noexcept { return 64 - since_carry_; }
  // As `add` for at most `until_carry()` rounds: calls add(grid, sums), which must add the losses
  // of these rounds, rounded to multiples of grid, to the sums.
  template <class Add>
  void add_rounds(std::uint64_t rounds, Add add) {
    add(kGrid, std::span<double>(recent_));
    since_carry_ += rounds - 1;
    count();
  }

  std::vector<double> values() const {
    std::vector<double> out(whole_);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += recent_[i];
    return out;
  }
  // `relative` writes the sums minus `offset`, a whole number.
  double offset() const noexcept { return offset_; }
  void relative(std::span<double> out) const {
    assert(out.size() == whole_.size());
    const simd::Kernels& k = simd::kernels();
    k.affine(1.0, whole_.data(), -offset_, whole_.size(), out.data());
    k.axpy(1.0, recent_.data(), recent_.size(), out.data());
  }
  // As `relative` for sums of at most `rounds` <= 2^50 losses, rounded to multiples of a grid that
  // depends on `rounds` alone. Sums that differ by at most 1 still do so after the rounding.
  void relative_on_grid(std::uint64_t rounds, std::span<double> out) const {
    assert(out.size() == whole_.size());
    const simd::Kernels& k = simd::kernels();
    // Adding the shift brings all sums into one binade.
    const double shift = 3.0 * static_cast<double>(std::bit_ceil(rounds));
    k.affine(1.0, whole_.data(), shift - offset_, whole_.size(), out.data());
    k.axpy(1.0, recent_.data(), recent_.size(), out.data());
    k.affine(1.0, out.data(), -shift, whole_.size(), out.data());
  }

  void write(Archive& archive) const {
    archive.word(since_carry_);
    archive.reals(whole_, recent_);
  }
  void read(ArchiveReader& archive) {
    since_carry_ = archive.word_below(64);
    archive.reals(whole_, recent_);
    const double most = 0.5 + static_cast<double>(since_carry_);
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      // Rounding the recent part to the nearest whole number may leave -1/2.
      const double recent = recent_[i] * 0x1p46;
      if (!(whole_[i] >= 0.0 && whole_[i] <= 0x1p53 && recent_[i] >= -0.5 && recent_[i] <= most) ||
          whole_[i] != std::floor(whole_[i]) || recent != std::floor(recent)) {
        throw StateError("state holds impossible sums");
      }
    }
    offset_ = simd::kernels().smallest(whole_.data(), whole_.size());
  }
  // Checks a restored state: throws StateError unless these can be sums of `rounds` losses.
  void require(std::uint64_t rounds) const {
    const auto most = static_cast<double>(rounds);
    bool possible = since_carry_ == rounds % 64;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const double sum = whole_[i] + recent_[i];
      possible = possible && sum >= 0.0 && sum <= most && (rounds >= 64 || whole_[i] == 0.0);
    }
    if (!possible) throw StateError("state holds impossible sums of losses");
  }

 private:
  static constexpr double kGrid = 0x1p-46;

  void count() {
    if (++since_carry_ == 64) carry();
  }
  void carry() {
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const double whole = (recent_[i] + elementary::kRoundMagic) - elementary::kRoundMagic;
      whole_[i] += whole;
      recent_[i] -= whole;
    }
    offset_ = simd::kernels().smallest(whole_.data(), whole_.size());
    since_carry_ = 0;
  }

  std::vector<double> whole_;
  std::vector<double> recent_;
  double offset_ = 0.0;
  std::uint64_t since_carry_ = 0;
};

}  // namespace dpoco
