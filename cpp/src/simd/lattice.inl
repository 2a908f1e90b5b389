// Integer arithmetic of sums on a lattice; a part of kernels.inl. docs/privacy/lattice.md has the
// bounds. Integers below 2^51 in doubles become 64-bit integers by their place in the mantissa of
// 1.5 * 2^52, and back.

typedef std::int64_t Longs __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
typedef std::uint64_t Bits __attribute__((vector_size(DPOCO_VECTOR_BYTES)));

// What double arithmetic may be wrong by, relative to the value, and what digits beyond those of
// the words may add. Pairs whose squared radius is not between these have too few digits in it.
constexpr double kRelativeMargin = 0x1p-48;
constexpr double kAbsoluteMargin = 0x1p-21;
constexpr double kSmallestSquare = 0x1p-27;
constexpr double kLargestSquare = 26.0;

template <class V>
DPOCO_INLINE V rounded_to_integer(V x) {
  return (x + el::kRoundMagic) - el::kRoundMagic;
}

bool round_gaussians(double scale, const double* z, const double* partner, std::size_t n,
                     double* out) {
  const double open = el::from_bits(0x7ff8000000000000ULL);
  Longs undecided = {};
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const Doubles x = load(z + i);
    const Doubles y = load(partner + i);
    const Doubles v = scale * x;
    const Doubles nearest = rounded_to_integer(v);
    const Doubles off = v - nearest;
    const Doubles distance = off < 0.0 ? -off : off;
    const Doubles size = v < 0.0 ? -v : v;
    const Doubles square = x * x + y * y;
    const Longs bad = (distance + (size * kRelativeMargin + kAbsoluteMargin) > 0.5) |
                      (square > kLargestSquare) | (square < kSmallestSquare);
    undecided |= bad;
    store(out + i, bad ? open + Doubles{} : nearest);
  }
  bool any = false;
  for (std::size_t lane = 0; lane < kWidth; ++lane) any = any || undecided[lane] != 0;
  for (; i < n; ++i) {
    const double v = scale * z[i];
    const double nearest = rounded_to_integer(v);
    const double off = v - nearest;
    const double distance = off < 0.0 ? -off : off;
    const double size = v < 0.0 ? -v : v;
    const double square = z[i] * z[i] + partner[i] * partner[i];
    const bool bad = distance + (size * kRelativeMargin + kAbsoluteMargin) > 0.5 ||
                     square > kLargestSquare || square < kSmallestSquare;
    out[i] = bad ? open : nearest;
    any = any || bad;
  }
  return !any;
}

template <class V>
DPOCO_INLINE V kept_within(V x, double limit) {
  const V below = x < limit ? x : limit + V{};
  return below > -limit ? below : -limit + V{};
}

void accumulate_rounded(double a, const double* x, double grid, double limit, std::size_t n,
                        double* sum) {
  const double magic = el::kRoundMagic * grid;  // exact
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const Doubles rounded = (kept_within(a * load(x + i), limit) + magic) - magic;
    store(sum + i, load(sum + i) + rounded);
  }
  for (; i < n; ++i) sum[i] += (kept_within(a * x[i], limit) + magic) - magic;
}

// One step of kWidth columns or one: D and U hold doubles and unsigned integers.
template <class D, class U>
DPOCO_INLINE void lattice_step(double a, const double* g, const double* noise, double inverse,
                               double limit, unsigned shift, double step, std::int64_t* sum,
                               double* out) {
  constexpr std::uint64_t kMagic = 0x4338000000000000ULL;  // 1.5 * 2^52
  constexpr std::uint64_t kSmall = 0x4330000000000000ULL;  // 2^52
  constexpr std::uint64_t kOffset = 1ULL << 62;            // sums become positive
  D row;
  D z;
  U s;
  __builtin_memcpy(&row, g, sizeof row);
  __builtin_memcpy(&z, noise, sizeof z);
  __builtin_memcpy(&s, sum, sizeof s);
  const D shifted = kept_within((a * row) * inverse, limit) + el::kRoundMagic;
  U leaf;
  __builtin_memcpy(&leaf, &shifted, sizeof leaf);
  s += leaf - kMagic;
  __builtin_memcpy(sum, &s, sizeof s);
  const D moved = z + el::kRoundMagic;
  U noise_bits;
  __builtin_memcpy(&noise_bits, &moved, sizeof noise_bits);
  // Half of the step more, then cut: the nearest multiple, ties up.
  const std::uint64_t half = shift > 0 ? 1ULL << (shift - 1) : 0;
  const U released = (s + (noise_bits - kMagic) + (kOffset + half)) >> shift;
  const U high = (released >> 32) | kSmall;
  const U low = (released & 0xffffffffULL) | kSmall;
  D top;
  D bottom;
  __builtin_memcpy(&top, &high, sizeof top);
  __builtin_memcpy(&bottom, &low, sizeof bottom);
  const double offset = static_cast<double>(kOffset >> shift);
  const D value = ((top - 0x1p52) * 0x1p32 - offset) + (bottom - 0x1p52);
  const D result = value * step;
  __builtin_memcpy(out, &result, sizeof result);
}

void lattice_release(double a, const double* g, const double* noise, double grid, double limit,
                     unsigned shift, std::size_t n, std::int64_t* sum, double* out) {
  const double inverse = 1.0 / grid;  // exact, as all multiplications by powers of two
  const double step = grid * static_cast<double>(1ULL << shift);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    lattice_step<Doubles, Bits>(a, g + i, noise + i, inverse, limit, shift, step, sum + i, out + i);
  }
  for (; i < n; ++i) {
    lattice_step<double, std::uint64_t>(a, g + i, noise + i, inverse, limit, shift, step, sum + i,
                                        out + i);
  }
}

template <class V, std::size_t kBuffers>
DPOCO_INLINE void lattice_blt_step(std::size_t n, double magic, const double* decay,
                                   const double* omega, double* state, double* total, double* z) {
  const auto get = [](const double* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  };
  const auto put = [](double* to, V v) { __builtin_memcpy(to, &v, sizeof v); };
  V held[kBuffers];
  for (std::size_t j = 0; j < kBuffers; ++j) held[j] = get(state + j * n);
  V past = omega[0] * held[0];
  for (std::size_t j = 1; j < kBuffers; ++j) past += omega[j] * held[j];
  const V w = get(z) - rounded_to_integer(past);
  for (std::size_t j = 0; j < kBuffers; ++j) {
    const V lost = (decay[j] * held[j] + magic) - magic;  // a multiple of the unit
    put(state + j * n, (held[j] - lost) + w);
  }
  const V sum = get(total) + w;
  put(total, sum);
  put(z, sum);
}

template <std::size_t kBuffers>
void lattice_blt_rounds(std::size_t rounds, std::size_t n, double magic, const double* decay,
                        const double* omega, double* state, double* total, double* z) {
  double s[kBuffers];  // copies, so that stores to the rows cannot change them
  double w[kBuffers];
  for (std::size_t j = 0; j < kBuffers; ++j) s[j] = decay[j];
  for (std::size_t j = 0; j < kBuffers; ++j) w[j] = omega[j];
  for (std::size_t r = 0; r < rounds; ++r, z += n) {
    std::size_t i = 0;
    for (; i + kWidth <= n; i += kWidth) {
      lattice_blt_step<Doubles, kBuffers>(n, magic, s, w, state + i, total + i, z + i);
    }
    remaining(i, n, [&](std::size_t at) {
      lattice_blt_step<double, kBuffers>(n, magic, s, w, state + at, total + at, z + at);
    });
  }
}

void lattice_blt(std::size_t rounds, std::size_t n, double unit, std::size_t buffers,
                 const double* decay, const double* omega, double* state, double* total,
                 double* z) {
  const double magic = el::kRoundMagic * unit;
  if (buffers == 5) {
    return lattice_blt_rounds<5>(rounds, n, magic, decay, omega, state, total, z);
  }
  for (std::size_t r = 0; r < rounds; ++r, z += n) {
    for (std::size_t i = 0; i < n; ++i) {
      double past = omega[0] * state[i];
      for (std::size_t j = 1; j < buffers; ++j) past += omega[j] * state[j * n + i];
      const double w = z[i] - rounded_to_integer(past);
      for (std::size_t j = 0; j < buffers; ++j) {
        double& held = state[j * n + i];
        held = (held - ((decay[j] * held + magic) - magic)) + w;
      }
      total[i] += w;
      z[i] = total[i];
    }
  }
}
