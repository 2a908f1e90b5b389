#pragma once

namespace dpoco {

// The unevaluated sum of two doubles, about 32 digits. Error-free transformations of Knuth and
// Dekker: only + - * / of doubles, none contracted, so that results are the same everywhere.
// Magnitudes beyond 1e290 overflow.
struct DoubleDouble {
  double high = 0.0;
  double low = 0.0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double x) : high(x) {}  // NOLINT: a double is one
  constexpr DoubleDouble(double h, double l) : high(h), low(l) {}

  explicit constexpr operator double() const { return high; }
};

// a + b exactly.
constexpr DoubleDouble exact_sum(double a, double b) {
  const double sum = a + b;
  const double added = sum - a;
  return {sum, (a - (sum - added)) + (b - added)};
}

// a * b exactly, unless it underflows.
constexpr DoubleDouble exact_product(double a, double b) {
  constexpr double kSplit = 134217729.0;  // 2^27 + 1: halves of 26 bits
  const double ta = kSplit * a;
  const double tb = kSplit * b;
  const double ah = ta - (ta - a);
  const double bh = tb - (tb - b);
  const double al = a - ah;
  const double bl = b - bh;
  const double product = a * b;
  return {product, ((ah * bh - product) + ah * bl + al * bh) + al * bl};
}

constexpr DoubleDouble operator-(DoubleDouble a) { return {-a.high, -a.low}; }

constexpr DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = exact_sum(a.high, b.high);
  const DoubleDouble low = exact_sum(a.low, b.low);
  const DoubleDouble part = exact_sum(high.high, high.low + low.high);
  return exact_sum(part.high, part.low + low.low);
}

constexpr DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + (-b); }

constexpr DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = exact_product(a.high, b.high);
  return exact_sum(high.high, high.low + (a.high * b.low + a.low * b.high));
}

constexpr DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.high / b.high;
  DoubleDouble rest = a - b * DoubleDouble(first);
  const double second = rest.high / b.high;
  rest = rest - b * DoubleDouble(second);
  return exact_sum(first, second) + DoubleDouble(rest.high / b.high);
}

constexpr bool operator<(DoubleDouble a, DoubleDouble b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}
constexpr bool operator<=(DoubleDouble a, DoubleDouble b) { return !(b < a); }
constexpr bool operator>(DoubleDouble a, DoubleDouble b) { return b < a; }

}  // namespace dpoco
