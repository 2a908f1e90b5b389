// The kernels of elementary.hpp, run on numbers that write down what is done to them: one line for
// each operation that rounds, "KERNEL NUMBER LEFT OPERATOR RIGHT". proofs/render.py puts these
// lines into the scripts.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

namespace trace {

using Real = double;

// Eight bytes, as a double: a number of its own, or (by a NaN that arithmetic does not make) the
// result of an operation. An operation on numbers alone, and those that round nothing (x + 0, x *
// 0, 0 - x), are not written down.
constexpr std::uint64_t kTag = 0x7ff4000000000000ULL;

struct Node {
  char text[80];
  Real value;
};
std::vector<Node> nodes;
const char* kernel = "";
int operations = 0;

struct Number {
  Real bits;
  constexpr Number(Real x = 0.0) : bits(x) {}
};

int node_of(Number x) {
  std::uint64_t b;
  std::memcpy(&b, &x.bits, sizeof b);
  return (b & 0xffff000000000000ULL) == kTag ? static_cast<int>(b & 0xffffffffULL) : -1;
}

Number node(const char* text, Real value) {
  const std::uint64_t b = kTag | nodes.size();
  nodes.push_back({});
  std::snprintf(nodes.back().text, sizeof nodes.back().text, "%s", text);
  nodes.back().value = value;
  Number x;
  std::memcpy(&x.bits, &b, sizeof b);
  return x;
}

Real value_of(Number x) { return node_of(x) < 0 ? x.bits : nodes[node_of(x)].value; }

const char* text_of(Number x, char* space) {
  if (node_of(x) >= 0) return nodes[node_of(x)].text;
  std::snprintf(space, 40, "%a", x.bits);
  return space;
}

Number operation(Number a, char sign, Number b, Real result) {
  const bool plain_a = node_of(a) < 0;
  const bool plain_b = node_of(b) < 0;
  if (plain_a && plain_b) return Number(result);
  const bool zero_a = plain_a && a.bits == 0.0;
  const bool zero_b = plain_b && b.bits == 0.0;
  if (sign == '*' && (zero_a || zero_b)) return Number(0.0);
  if (sign == '+' && zero_a) return b;
  if ((sign == '+' || sign == '-') && zero_b) return a;
  char left[40];
  char right[40];
  char text[80];
  if (sign == '-' && zero_a) {
    std::snprintf(text, sizeof text, "-%s", text_of(b, right));
    return node(text, result);
  }
  std::printf("%s %d %s %c %s\n", kernel, ++operations, text_of(a, left), sign, text_of(b, right));
  std::snprintf(text, sizeof text, "v%d", operations);
  return node(text, result);
}

constexpr Number operator+(Number a, Number b) {
  return std::is_constant_evaluated() ? Number(a.bits + b.bits)
                                      : operation(a, '+', b, value_of(a) + value_of(b));
}
constexpr Number operator*(Number a, Number b) {
  return std::is_constant_evaluated() ? Number(a.bits * b.bits)
                                      : operation(a, '*', b, value_of(a) * value_of(b));
}
Number operator-(Number a, Number b) { return operation(a, '-', b, value_of(a) - value_of(b)); }
Number operator/(Number a, Number b) { return operation(a, '/', b, value_of(a) / value_of(b)); }
Number operator-(Number a) { return Number(0.0) - a; }
bool operator<(Number a, Number b) { return value_of(a) < value_of(b); }
bool operator>(Number a, Number b) { return value_of(a) > value_of(b); }
bool operator==(Number a, Number b) { return value_of(a) == value_of(b); }

void begin(const char* name) {
  kernel = name;
  operations = 0;
}

Number input(const char* name, const char* of, Real value) {
  begin(of);
  return node(name, value);
}

}  // namespace trace

#define double trace::Number
#include "dpoco/simd/elementary.hpp"

// variates.inl builds its halves of uniforms from bits: they are inputs.
namespace dpoco::elementary {
int halves = 0;
inline trace::Number half_of(std::uint64_t bits) {
  trace::Real value;
  std::memcpy(&value, &bits, sizeof value);
  return trace::node(halves++ % 2 == 0 ? "high" : "low", value);
}
inline trace::Number root(trace::Number x) { return x; }  // not traced
}  // namespace dpoco::elementary

namespace dpoco {
namespace el = elementary;
constexpr std::size_t kSuperblock = 128;
struct Position {
  std::uint64_t superblock;
};
inline void superblock(const Position&, std::uint64_t, std::uint32_t*) {}
#define from_bits half_of
#define __builtin_sqrt el::root
#include "../../cpp/src/simd/variates.inl"
#undef double
}  // namespace dpoco

int main() {
  namespace el = dpoco::elementary;
  using trace::input;
  el::log_reduced(input("f", "log_near_one", 0.25), 0.0);
  const trace::Number f = input("f", "log_reduced", 0.25);
  el::log_reduced(f, input("k", "log_reduced", -3.0));
  el::sine(input("x", "sine", 0.5));
  el::cosine(input("x", "cosine", 0.5));
  el::exp(input("x", "exp", 0.5));
  trace::begin("uniform");
  dpoco::Grid<64>::uniform(1ULL << 40);
  trace::begin("angle");
  dpoco::to_angle(1ULL << 40);
}
