// ---- losses and weights of experts; a part of kernels.inl ---------------------------------------

constexpr double kLargest = 0x1.fffffffffffffp1023;

// V is Doubles or double; comparisons select entry by entry for both. kUnit means that the range is
// [0, 1].
template <bool kUnit, class V>
DPOCO_INLINE V admit(V x, V low, V high, double inverse, V& count) {
  const V one = V{} + 1.0;
  // For the range [0, 1], minus zero becomes zero, which adds the same and is a little faster.
  const V above = kUnit ? (x > low ? x : low) : (x < low ? low : x);
  const V clipped = x <= kLargest ? (above > high ? high : above) : low;
  count = clipped == x ? count : count + one;  // also unequal for NaN and infinities
  if constexpr (kUnit) return clipped;
  // The product may round above 1 although the clipped value is in the range.
  const V unit = (clipped - low) * inverse;
  return unit > one ? one : unit;
}

std::uint64_t admit_losses(const double* x, std::size_t n, double low, double high, double inverse,
                           double* out) {
  const Doubles lows = low + Doubles{};
  const Doubles highs = high + Doubles{};
  Doubles counts = {};
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(out + i, admit<false>(load(x + i), lows, highs, inverse, counts));
  }
  double rest = 0.0;
  for (; i < n; ++i) out[i] = admit<false>(x[i], low, high, inverse, rest);
  double partial[kWidth];
  store(partial, counts);
  for (std::size_t lane = 0; lane < kWidth; ++lane) rest += partial[lane];
  return static_cast<std::uint64_t>(rest);
}

// Without `volatile`, compilers would load the value again for each use.
DPOCO_INLINE Doubles load_once(const double* from) {
  typedef Doubles Anywhere __attribute__((aligned(8), may_alias));
  return *reinterpret_cast<const volatile Anywhere*>(from);
}

// Adds a few rows at a time. If a vector of columns has only losses in [0, 1], they need no
// clipping and no count. The last vector of a row ends with the row. Its sums stay in a register,
// because columns that it shares with the vector before are added twice.
template <bool kUnit, class V>
DPOCO_INLINE std::uint64_t admit_rows(std::size_t rounds, const double* x, std::size_t n,
                                      double low, double high, double inverse, double grid,
                                      double* sum) {
  constexpr std::size_t kColumns = sizeof(V) / sizeof(double);
  constexpr std::size_t kAtOnce = 8;
  const V lows = low + V{};
  const V highs = high + V{};
  const double magic = el::kRoundMagic * grid;  // exact
  const std::size_t last = n - kColumns;
  V count = {};
  V last_count = {};
  V last_sums = get<V>(sum + last);
  const auto add = [=](const double* from, std::size_t rows, V sums, V& changes) {
    if constexpr (kUnit && kColumns > 1) {
      constexpr std::uint64_t kOne = 0x3ff0000000000000ULL;
      V plain = sums;
      Bits outside = {};
      for (std::size_t r = 0; r < rows; ++r) {
        const Doubles loss = load_once(from + r * n);
        const Bits bits = (Bits)loss;
        outside |= bits | (kOne - bits);  // negative unless in [0, 1]; also for minus zero
        plain += (loss + magic) - magic;
      }
      if (!any_lane((Longs)outside < 0)) return plain;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      const V loss = admit<kUnit>(get<V>(from + r * n), lows, highs, inverse, changes);
      sums += (loss + magic) - magic;
    }
    return sums;
  };
  const auto add_rows = [&](std::size_t rows) {
    for (std::size_t i = 0; i < last; i += kColumns) {
      put(sum + i, add(x + i, rows, get<V>(sum + i), count));
    }
    last_sums = add(x + last, rows, last_sums, last_count);
    x += rows * n;
  };
  for (; rounds >= kAtOnce; rounds -= kAtOnce) add_rows(kAtOnce);
  if (rounds > 0) add_rows(rounds);
  put(sum + last, last_sums);
  double lanes[2][kColumns];
  put(lanes[0], count);
  put(lanes[1], last_count);
  double changed = 0.0;
  for (std::size_t lane = 0; lane < kColumns; ++lane) changed += lanes[0][lane];
  const std::size_t shared = (kColumns - n % kColumns) % kColumns;
  for (std::size_t lane = shared; lane < kColumns; ++lane) changed += lanes[1][lane];
  return static_cast<std::uint64_t>(changed);
}

std::uint64_t admit_sums(std::size_t rounds, const double* x, std::size_t n, double low,
                         double high, double inverse, double grid, double* sum) {
  const bool unit = low == 0.0 && high == 1.0;
  const auto wide = unit ? admit_rows<true, Doubles> : admit_rows<false, Doubles>;
  const auto narrow = unit ? admit_rows<true, double> : admit_rows<false, double>;
  return (n < kWidth ? narrow : wide)(rounds, x, n, low, high, inverse, grid, sum);
}

double smallest(const double* x, std::size_t n) {
  Doubles least[kParts];
  for (std::size_t p = 0; p < kParts; ++p) least[p] = x[0] + Doubles{};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Doubles v = load(x + i + p * kWidth);
      least[p] = v < least[p] ? v : least[p];
    }
  }
  double m = x[0];
  for (; i < n; ++i) m = x[i] < m ? x[i] : m;
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, least[p]);
  for (std::size_t lane = 0; lane < kPartials; ++lane) m = partial[lane] < m ? partial[lane] : m;
  return m;
}

// Multiplies `out` by the weights, if any, and adds it to the eight partial sums.
template <bool kWeighted>
DPOCO_INLINE void weigh(const double* weights, std::size_t n, double* out, Doubles* acc) {
  for (std::size_t i = 0; i < n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      Doubles v = load(out + i + p * kWidth);
      if constexpr (kWeighted) {
        v *= load(weights + i + p * kWidth);
        store(out + i + p * kWidth, v);
      }
      acc[p] += v;
    }
  }
}

// Computes the exponentials of a cached piece first: in one loop with the sum they would overlap
// less.
template <bool kWeighted>
DPOCO_INLINE double tilt_all(const double* weights, const double* x, double base, double rate,
                             std::size_t n, double* out) {
  constexpr std::size_t kPiece = 512;
  Doubles acc[kParts] = {};
  const std::size_t whole = n - n % kPartials;
  for (std::size_t first = 0; first < whole; first += kPiece) {
    const std::size_t count = whole - first < kPiece ? whole - first : kPiece;
    // Exponentials and results have separate arrays, because out may alias x or the weights.
    double piece[kPiece];
    for (std::size_t i = 0; i < count; i += kPartials) {
      double group[kPartials];
      for (std::size_t lane = 0; lane < kPartials; ++lane) {
        group[lane] = el::exp(-rate * (x[first + i + lane] - base));
      }
      __builtin_memcpy(piece + i, group, sizeof group);
    }
    weigh<kWeighted>(weights + first, count, piece, acc);
    __builtin_memcpy(out + first, piece, count * sizeof(double));
  }
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, acc[p]);
  for (std::size_t i = whole, lane = 0; i < n; ++i, ++lane) {
    const double factor = el::exp(-rate * (x[i] - base));
    out[i] = kWeighted ? weights[i] * factor : factor;
    partial[lane] += out[i];
  }
  return add_partials(partial);
}

double tilt(const double* weights, const double* x, double base, double rate, std::size_t n,
            double* out) {
  // Without weights the pointer is not used. Passing `out` keeps its arithmetic defined.
  return weights == nullptr ? tilt_all<false>(out, x, base, rate, n, out)
                            : tilt_all<true>(weights, x, base, rate, n, out);
}

void affine(double a, const double* x, double b, std::size_t n, double* out) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(out + i, a * load(x + i) + b);
  for (; i < n; ++i) out[i] = a * x[i] + b;
}

double cusum(double gain, const double* x, std::size_t n, double* state) {
  Doubles most[kParts];
  for (std::size_t p = 0; p < kParts; ++p) most[p] = -__builtin_inf() + Doubles{};
  const Doubles zero = {};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Doubles old = load(state + i + p * kWidth);
      const Doubles next = (old > zero ? old : zero) + (gain - load(x + i + p * kWidth));
      store(state + i + p * kWidth, next);
      most[p] = next > most[p] ? next : most[p];
    }
  }
  double m = -__builtin_inf();
  for (; i < n; ++i) {
    const double next = (state[i] > 0.0 ? state[i] : 0.0) + (gain - x[i]);
    state[i] = next;
    m = next > m ? next : m;
  }
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, most[p]);
  for (std::size_t lane = 0; lane < kPartials; ++lane) m = partial[lane] > m ? partial[lane] : m;
  return m;
}
