#include "dpoco/experts/cosine_transform.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dpoco::experts {
namespace {

// Two real columns make one complex sequence. This many sequences are processed side by side, so
// that every loop below has a constant number of lanes and vectorises.
constexpr std::size_t kLanes = 4;
constexpr std::size_t kWidth = 2 * kLanes;  // an entry: real parts, then imaginary parts

// An entry is kWidth doubles within a larger array. These innermost loops take pointers to entries,
// so that their lengths are constants and a compiler vectorises them.

// b = (c + i s) a
void turn(const double* a, double c, double s, double* b) noexcept {
  for (std::size_t v = 0; v < kLanes; ++v) {
    const double re = a[v] * c - a[v + kLanes] * s;
    const double im = a[v] * s + a[v + kLanes] * c;
    b[v] = re;
    b[v + kLanes] = im;
  }
}

// b += (c + i s) a
void turn_and_add(const double* a, double c, double s, double* b) noexcept {
  for (std::size_t v = 0; v < kLanes; ++v) {
    b[v] += a[v] * c - a[v + kLanes] * s;
    b[v + kLanes] += a[v] * s + a[v + kLanes] * c;
  }
}

void sum_and_difference(const double* a, const double* b, double* sum, double* diff) noexcept {
  for (std::size_t v = 0; v < kWidth; ++v) {
    sum[v] = a[v] + b[v];
    diff[v] = a[v] - b[v];
  }
}

// The position at which the transform of a real column is evaluated: sequence 2i from the front, 2i
// + 1 from the back (Makhoul, "A fast cosine transform in one and two dimensions", 1980).
std::size_t shuffle_row(std::size_t row, std::size_t n) noexcept {
  return row % 2 == 0 ? row / 2 : n - 1 - row / 2;
}

}  // namespace

void unit_root(std::size_t k, std::size_t n, double& cosine, double& sine) noexcept {
  // The angle in units of pi / (4 n). Symmetries bring it into [0, pi/4] exactly.
  std::size_t a = 8 * (k % n);
  const bool below = a > 4 * n;
  if (below) a = 8 * n - a;
  const bool left = a > 2 * n;
  if (left) a = 4 * n - a;
  const bool steep = a > n;
  if (steep) a = 2 * n - a;
  const double x = 0.25 * std::numbers::pi * (static_cast<double>(a) / static_cast<double>(n));
  const double z = x * x;
  // Taylor series up to x^19: the rest is below 1e-19.
  double s = 1.0;
  double c = 1.0;
  for (double m = 18.0; m > 0.0; m -= 2.0) {
    s = 1.0 - z / (m * (m + 1.0)) * s;
    c = 1.0 - z / (m * (m - 1.0)) * c;
  }
  s *= x;
  cosine = (left ? -1.0 : 1.0) * (steep ? s : c);
  sine = (below ? -1.0 : 1.0) * (steep ? c : s);
}

CosineTransform::CosineTransform(std::size_t length) : length_(length) {
  if (length < 1) throw std::invalid_argument("a cosine transform needs a positive length");
  std::size_t rest = length;
  for (const std::size_t factor : {std::size_t{4}, std::size_t{2}, std::size_t{3}}) {
    for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
  }
  for (std::size_t factor = 5; rest > 1; factor += 2) {
    for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
  }
  for (std::vector<double>* table : {&cosines_, &sines_, &quarter_cosines_, &quarter_sines_}) {
    table->resize(length);
  }
  for (std::size_t k = 0; k < length; ++k) {
    unit_root(k, length, cosines_[k], sines_[k]);
    unit_root(k, 4 * length, quarter_cosines_[k], quarter_sines_[k]);
  }
  work_.assign(length * kWidth, 0.0);
  next_.assign(length * kWidth, 0.0);
}

// The discrete Fourier transform of work_, in place: Stockham's self-sorting form, mixed radix.
void CosineTransform::transform() noexcept {
  const std::size_t n = length_;
  double a[4 * kWidth];
  std::size_t stride = 1;
  for (const std::size_t radix : factors_) {
    const std::size_t groups = n / stride / radix;
    for (std::size_t p = 0; p < groups; ++p) {
      for (std::size_t q = 0; q < stride; ++q) {
        const double* from = work_.data() + (q + stride * p) * kWidth;
        double* to = next_.data() + (q + stride * radix * p) * kWidth;
        const std::size_t step = stride * groups * kWidth;
        const std::size_t skip = stride * kWidth;
        const auto root = [&](std::size_t j, const double* x, double* out) {
          const std::size_t at = p * j * stride;  // below n
          turn(x, cosines_[at], -sines_[at], out);
        };
        if (radix == 2) {
          sum_and_difference(from, from + step, to, a);
          root(1, a, to + skip);
        } else if (radix == 4) {
          double* even = a;
          double* odd = a + kWidth;
          double* left = a + 2 * kWidth;
          double* right = a + 3 * kWidth;
          sum_and_difference(from, from + 2 * step, even, odd);
          sum_and_difference(from + step, from + 3 * step, left, right);
          for (std::size_t v = 0; v < kLanes; ++v) {  // right = -i right
            const double re = right[v];
            right[v] = right[v + kLanes];
            right[v + kLanes] = -re;
          }
          double sums[kWidth];
          double differences[kWidth];
          sum_and_difference(even, left, to, differences);
          root(2, differences, to + 2 * skip);
          sum_and_difference(odd, right, sums, differences);
          root(1, sums, to + skip);
          root(3, differences, to + 3 * skip);
        } else {
          for (std::size_t j = 0; j < radix; ++j) {
            std::copy(from, from + kWidth, a);
            for (std::size_t i = 1; i < radix; ++i) {
              const std::size_t at = i * j % radix * (n / radix);
              turn_and_add(from + i * step, cosines_[at], -sines_[at], a);
            }
            root(j, a, to + j * skip);
          }
        }
      }
    }
    work_.swap(next_);
    stride *= radix;
  }
}

void CosineTransform::forward(std::span<const double> in, std::span<double> out) noexcept {
  const std::size_t n = length_;
  const std::size_t columns = in.size() / n;
  assert(in.size() == n * columns && out.size() == in.size());
  const double inverse_length = 1.0 / static_cast<double>(n);
  for (std::size_t start = 0; start < columns; start += kWidth) {
    const std::size_t width = std::min(kWidth, columns - start);
    for (std::size_t row = 0; row < n; ++row) {
      double* to = work_.data() + shuffle_row(row, n) * kWidth;
      std::copy_n(&in[row * columns + start], width, to);
      std::fill(to + width, to + kWidth, 0.0);
    }
    transform();
    for (std::size_t k = 0; k < n; ++k) {
      // V = A + i B, where A and B are the transforms of real columns: A_k = (V_k + conj V_{n-k}) /
      // 2,
      // B_k = (V_k - conj V_{n-k}) / (2 i).
      const double* here = work_.data() + k * kWidth;
      const double* mirrored = work_.data() + (k == 0 ? 0 : n - k) * kWidth;
      const double scale = 0.5 * std::sqrt((k == 0 ? 1.0 : 2.0) * inverse_length);
      const double c = scale * quarter_cosines_[k];
      const double s = scale * quarter_sines_[k];
      double row[kWidth];
      for (std::size_t v = 0; v < kLanes; ++v) {
        const double re = here[v];
        const double im = here[v + kLanes];
        const double re2 = mirrored[v];
        const double im2 = mirrored[v + kLanes];
        row[v] = c * (re + re2) + s * (im - im2);
        row[v + kLanes] = c * (im + im2) - s * (re - re2);
      }
      for (std::size_t v = 0; v < width; ++v) out[(start + v) * n + k] = row[v];
    }
  }
}

void CosineTransform::inverse(std::span<const double> in, std::span<double> out) noexcept {
  const std::size_t n = length_;
  const std::size_t columns = in.size() / n;
  assert(in.size() == n * columns && out.size() == in.size());
  const double inverse_length = 1.0 / static_cast<double>(n);
  const double zeros[kWidth] = {};
  for (std::size_t start = 0; start < columns; start += kWidth) {
    const std::size_t width = std::min(kWidth, columns - start);
    for (std::size_t k = 0; k < n; ++k) {
      double here[kWidth] = {};
      double mirrored[kWidth] = {};
      std::copy_n(&in[k * columns + start], width, here);
      std::copy_n(k == 0 ? zeros : &in[(n - k) * columns + start], width, mirrored);
      const double scale = std::sqrt((k == 0 ? 1.0 : 0.5) * inverse_length);
      const double c = scale * quarter_cosines_[k];
      const double s = scale * quarter_sines_[k];
      // V_k = A_k + i B_k with A_k = e^{i pi k / 2n} (C_k - i C_{n-k}). Real and imaginary parts
      // are swapped, so that the forward transform below is the inverse one.
      double* to = work_.data() + k * kWidth;
      for (std::size_t v = 0; v < kLanes; ++v) {
        const double a = here[v];
        const double b = here[v + kLanes];
        const double a2 = mirrored[v];
        const double b2 = mirrored[v + kLanes];
        to[v] = (s * a - c * a2) + (c * b + s * b2);
        to[v + kLanes] = (c * a + s * a2) - (s * b - c * b2);
      }
    }
    transform();
    for (std::size_t row = 0; row < n; ++row) {
      const double* from = work_.data() + shuffle_row(row, n) * kWidth;
      for (std::size_t v = 0; v < width; ++v) {
        out[(start + v) * n + row] = from[(v + kLanes) % kWidth];
      }
    }
  }
}

}  // namespace dpoco::experts
