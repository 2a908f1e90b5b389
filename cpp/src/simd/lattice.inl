// Integer arithmetic of sums on a lattice; a part of kernels.inl. docs/privacy/lattice.md has the
// bounds. Doubles that are integers below 2^51 become 64-bit integers, and back, by their place in
// the mantissa of 1.5 * 2^52.

typedef std::int64_t Longs __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
typedef std::uint64_t Bits __attribute__((vector_size(DPOCO_VECTOR_BYTES)));

// The largest error of double arithmetic, relative to the value, and the largest contribution of
// digits beyond those of the words. A pair whose squared radius is not between the two squares has
// too few digits in it.
constexpr double kRelativeMargin = 0x1p-48;
constexpr double kAbsoluteMargin = 0x1p-21;
constexpr double kSmallestSquare = 0x1p-27;
constexpr double kLargestSquare = 26.0;

template <class V>
DPOCO_INLINE V rounded_to_integer(V x) {
  return (x + el::kRoundMagic) - el::kRoundMagic;
}

DPOCO_INLINE bool any_lane(Longs mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#else
  bool any = false;
  for (std::size_t lane = 0; lane < kWidth; ++lane) any = any || mask[lane] != 0;
  return any;
#endif
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
  bool any = any_lane(undecided);
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
  by_columns(n, [=]<class V>(V, const std::size_t* at) {
    V s[2];
    for (int k = 0; k < 2; ++k) {
      const V rounded = (kept_within(a * get<V>(x + at[k]), limit) + magic) - magic;
      s[k] = get<V>(sum + at[k]) + rounded;
    }
    for (int k = 0; k < 2; ++k) put(sum + at[k], s[k]);
  });
}

// One step of kWidth columns or of one column: D has doubles and U unsigned integers. Returns the
// released value: adding half a multiple of 2^shift and cutting rounds to the nearest multiple,
// ties up.
template <class D, class U>
DPOCO_INLINE D lattice_step(D leaf, D noise, double limit, unsigned shift, double step, U& sum) {
  constexpr std::uint64_t kMagic = 0x4338000000000000ULL;  // 1.5 * 2^52
  const D shifted = kept_within(leaf, limit) + el::kRoundMagic;
  U bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  sum += bits - kMagic;
  const D moved = noise + el::kRoundMagic;
  U noise_bits;
  __builtin_memcpy(&noise_bits, &moved, sizeof noise_bits);
  const std::uint64_t half = shift > 0 ? 1ULL << (shift - 1) : 0;
#if defined(__AVX512DQ__)  // converts 64-bit integers to doubles
  if constexpr (sizeof(U) == sizeof(Longs)) {
    const Longs cut = (Longs)(sum + noise_bits + (half - kMagic)) >> static_cast<int>(shift);
    return __builtin_convertvector(cut, Doubles) * step;
  }
#endif
  constexpr std::uint64_t kSmall = 0x4330000000000000ULL;  // 2^52
  constexpr std::uint64_t kOffset = 1ULL << 62;            // sums become positive
  const U released = (sum + noise_bits + (kOffset + half - kMagic)) >> shift;
  const U high = (released >> 32) | kSmall;
  const U low = (released & 0xffffffffULL) | kSmall;
  D top;
  D bottom;
  __builtin_memcpy(&top, &high, sizeof top);
  __builtin_memcpy(&bottom, &low, sizeof bottom);
  const double offset = static_cast<double>(kOffset >> shift);
  const D value = ((top - 0x1p52) * 0x1p32 - offset) + (bottom - 0x1p52);
  return value * step;
}

DPOCO_INLINE Bits bits_like(Doubles) { return Bits{}; }
DPOCO_INLINE std::uint64_t bits_like(double) { return 0; }

void lattice_release(std::size_t rounds, const double* a, const double* g, const double* noise,
                     double grid, double limit, unsigned shift, std::size_t n, std::int64_t* sum,
                     double* out) {
  const double inverse = 1.0 / grid;  // exact, as all multiplications by powers of two
  const double step = grid * static_cast<double>(1ULL << shift);
  by_columns(n, [=]<class V>(V like, const std::size_t* at) {
    auto s0 = bits_like(like);
    auto s1 = s0;
    __builtin_memcpy(&s0, sum + at[0], sizeof s0);
    __builtin_memcpy(&s1, sum + at[1], sizeof s1);
    for (std::size_t t = 0, row = 0; t < rounds; ++t, row += n) {
      const double factor = a[t];
      const auto next = [=](std::size_t first, auto& s) {
        const V leaf = (factor * get<V>(g + row + first)) * inverse;
        const V z = get<V>(noise + row + first);
        put(out + row + first, lattice_step(leaf, z, limit, shift, step, s));
      };
      next(at[0], s0);
      next(at[1], s1);
    }
    __builtin_memcpy(sum + at[0], &s0, sizeof s0);
    __builtin_memcpy(sum + at[1], &s1, sizeof s1);
  });
}

void lattice_blt(std::size_t rounds, std::size_t n, double unit, std::size_t buffers,
                 const double* decay, const double* omega, double* state, double* total,
                 double* z) {
  const double magic = el::kRoundMagic * unit;
  if (buffers == kUsual) {
    return buffered<kUsual>(rounds, n, state, total, z, [=]<class V>(V* held, V drawn) {
      V past = omega[0] * held[0];
      for (std::size_t j = 1; j < kUsual; ++j) past += omega[j] * held[j];
      const V w = drawn - rounded_to_integer(past);
      for (std::size_t j = 0; j < kUsual; ++j) {
        const V lost = (decay[j] * held[j] + magic) - magic;  // a multiple of the unit
        held[j] = (held[j] - lost) + w;
      }
      return w;
    });
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
