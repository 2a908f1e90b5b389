#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::samplers {

// Sums of losses in [0, 1], exact for 2^53 rounds: losses are rounded to multiples of 2^-46, and
// whole numbers move from the recent part, below 128, to a part of their own.
class ExactSums {
 public:
  explicit ExactSums(std::size_t n) : whole_(n, 0.0), recent_(n, 0.0) {}

  static void round(const double* losses, std::size_t n, double* out) {
    constexpr double kShift = 96.0;  // 1.5 * 2^52 * 2^-46
    const simd::Kernels& k = simd::kernels();
    k.affine(1.0, losses, kShift, n, out);
    k.affine(1.0, out, -kShift, n, out);
  }

  void add(const double* rounded) {
    const simd::Kernels& k = simd::kernels();
    k.axpy(1.0, rounded, recent_.size(), recent_.data());
    if (++since_carry_ == 64) carry();
  }

  // Sums less the whole number `offset`.
  double offset() const noexcept { return offset_; }
  void relative(double* out) const {
    const simd::Kernels& k = simd::kernels();
    k.affine(1.0, whole_.data(), -offset_, whole_.size(), out);
    k.axpy(1.0, recent_.data(), recent_.size(), out);
  }

  void write(Archive& archive) const {
    archive.word(since_carry_);
    archive.reals(whole_.data(), whole_.size());
    archive.reals(recent_.data(), recent_.size());
  }
  void read(ArchiveReader& archive) {
    since_carry_ = archive.word_below(64);
    archive.reals(whole_.data(), whole_.size());
    archive.reals(recent_.data(), recent_.size());
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      // Rounding to the nearest whole number may leave half of one below it.
      if (!(whole_[i] >= 0.0 && whole_[i] <= 0x1p53 && recent_[i] >= -0.5 && recent_[i] < 128.0)) {
        throw StateError("state holds impossible sums");
      }
    }
    offset_ = simd::kernels().smallest(whole_.data(), whole_.size());
  }

 private:
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

}  // namespace dpoco::samplers
