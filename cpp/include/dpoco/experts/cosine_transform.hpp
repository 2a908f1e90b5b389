#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dpoco::experts {

// The orthonormal cosine transform (DCT-II) of any length n and its inverse, along the columns of a
// matrix, many columns at once. O(n log n) per column for lengths with small prime factors, O(n
// (sum of prime factors)) in general. Tables and arithmetic use only + - * / sqrt, so results have
// the same bits on every platform; other libraries use the sines of libm, which differ.
class CosineTransform {
 public:
  explicit CosineTransform(std::size_t length);

  std::size_t length() const noexcept { return length_; }
  // `in` is a matrix of length() rows, `out` its transform, transposed. They must be distinct.
  void forward(std::span<const double> in, std::span<double> out) noexcept;
  void inverse(std::span<const double> in, std::span<double> out) noexcept;

 private:
  void transform() noexcept;

  std::size_t length_;
  std::vector<std::size_t> factors_;
  std::vector<double> cosines_;  // cos(2 pi k / n), k < n
  std::vector<double> sines_;
  std::vector<double> quarter_cosines_;  // cos(pi k / (2 n))
  std::vector<double> quarter_sines_;
  std::vector<double> work_;  // complex numbers of a block of columns
  std::vector<double> next_;
};

// sin(2 pi k / n) and cos(2 pi k / n), to an ulp or two.
void unit_root(std::size_t k, std::size_t n, double& cosine, double& sine) noexcept;

}  // namespace dpoco::experts
