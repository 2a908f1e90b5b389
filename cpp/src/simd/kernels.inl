// The body of the kernels. The including file sets the instruction set (by compiler flags),
// DPOCO_VECTOR_BYTES and the names. Everything has internal linkage except the table at the end: an
// out-of-line copy built for a wide instruction set must not be shared with other files. So this
// file includes only headers without out-of-line functions.

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "dpoco/core/compensated.hpp"
#include "dpoco/simd/elementary.hpp"
#include "variants.hpp"

namespace dpoco::simd {
namespace {

namespace el = elementary;

constexpr std::size_t kPartials = 8;

#include "chacha.inl"
#include "variates.inl"

// ---- vectors of doubles -------------------------------------------------------------------------

typedef double Doubles __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
constexpr std::size_t kWidth = DPOCO_VECTOR_BYTES / 8;
constexpr std::size_t kParts = kPartials / kWidth;

DPOCO_INLINE Doubles load(const double* from) {
  Doubles v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

DPOCO_INLINE void store(double* to, Doubles v) { __builtin_memcpy(to, &v, sizeof v); }

// The same for V = Doubles or double.
template <class V>
DPOCO_INLINE V get(const double* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class V>
DPOCO_INLINE void put(double* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

DPOCO_INLINE double add_partials(const double* a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

// Loads the first `count` < 8 of eight entries, followed by `pad`. Zeros change no sum that began
// with a zero. A vector that is assembled from single entries in memory has to wait until all
// stores before it are done.
DPOCO_INLINE void load_some(const double* from, std::size_t count, double pad, Doubles* to) {
#if defined(__AVX512F__)
  const auto there = static_cast<__mmask8>((1U << count) - 1);
  to[0] = (Doubles)_mm512_mask_loadu_pd((__m512d)(pad + Doubles{}), there, from);
#else
  double padded[kPartials];
#if defined(__AVX2__)  // has masked loads
  for (std::size_t lane = 0; lane < kPartials; ++lane) {
    padded[lane] = lane < count ? from[lane] : pad;
  }
#else
  for (std::size_t lane = 0; lane < kPartials; ++lane) padded[lane] = pad;
  for (std::size_t lane = 0; lane < count; ++lane) padded[lane] = from[lane];
#endif
  for (std::size_t p = 0; p < kParts; ++p) to[p] = load(padded + p * kWidth);
#endif
}

double dot(const double* x, const double* y, std::size_t n) {
  Doubles acc[kParts] = {};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      acc[p] += load(x + i + p * kWidth) * load(y + i + p * kWidth);
    }
  }
  if (i < n) {
    Doubles left[kParts];
    Doubles right[kParts];
    load_some(x + i, n - i, 0.0, left);
    load_some(y + i, n - i, 0.0, right);
    for (std::size_t p = 0; p < kParts; ++p) acc[p] += left[p] * right[p];
  }
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, acc[p]);
  return add_partials(partial);
}

double sum(const double* x, std::size_t n) {
  Doubles acc[kParts] = {};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) acc[p] += load(x + i + p * kWidth);
  }
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, acc[p]);
  for (std::size_t lane = 0; i < n; ++i, ++lane) partial[lane] += x[i];
  return add_partials(partial);
}

double max_abs(const double* x, std::size_t n) {
  Doubles largest[kParts] = {};
  Doubles spoiled[kParts] = {};  // becomes NaN if any value is NaN or infinite
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Doubles v = load(x + i + p * kWidth);
      const Doubles a = v < 0.0 ? -v : v;
      largest[p] = a > largest[p] ? a : largest[p];
      spoiled[p] += v * 0.0;
    }
  }
  double most[kPartials];
  double rest[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(most + p * kWidth, largest[p]);
  for (std::size_t p = 0; p < kParts; ++p) store(rest + p * kWidth, spoiled[p]);
  for (std::size_t lane = 0; i < n; ++i, ++lane) {
    const double a = __builtin_fabs(x[i]);
    most[lane] = a > most[lane] ? a : most[lane];
    rest[lane] += x[i] * 0.0;
  }
  for (std::size_t half = kPartials / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      most[lane] = most[lane + half] > most[lane] ? most[lane + half] : most[lane];
    }
  }
  return most[0] + add_partials(rest);
}

// Applies `transform` to n values in groups of eight, the last group padded with `pad`.
template <class Transform, class Consume>
DPOCO_INLINE void by_eights(const double* x, std::size_t n, double pad, Transform transform,
                            Consume consume) {
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    double group[kPartials];
    for (std::size_t lane = 0; lane < kPartials; ++lane) group[lane] = transform(x[i + lane]);
    consume(i, kPartials, group);
  }
  if (i < n) {
    Doubles padded[kParts];
    load_some(x + i, n - i, pad, padded);
    double rest[kPartials];
    __builtin_memcpy(rest, padded, sizeof rest);
    double group[kPartials];
    for (std::size_t lane = 0; lane < kPartials; ++lane) group[lane] = transform(rest[lane]);
    consume(i, n - i, group);
  }
}

double abs_power_sum(const double* x, std::size_t n, double scale, double q) {
  double partial[kPartials] = {};
  by_eights(
      x, n, 0.0, [=](double v) { return el::power(__builtin_fabs(v) * scale, q); },
      [&](std::size_t, std::size_t, const double* group) {
        for (std::size_t lane = 0; lane < kPartials; ++lane) partial[lane] += group[lane];
      });
  return add_partials(partial);
}

DPOCO_INLINE void copy_group(std::size_t count, const double* group, double* out) {
  if (count == kPartials) {
    __builtin_memcpy(out, group, kPartials * sizeof(double));
  } else {
    for (std::size_t lane = 0; lane < count; ++lane) out[lane] = group[lane];
  }
}

void signed_power(const double* x, std::size_t n, double scale, double power, double* out) {
  by_eights(
      x, n, 0.0,
      [=](double v) {
        const double magnitude = el::power(__builtin_fabs(v) * scale, power);
        return el::from_bits(el::to_bits(magnitude) | (el::to_bits(v) & 0x8000000000000000ULL));
      },
      [&](std::size_t i, std::size_t count, const double* group) {
        copy_group(count, group, out + i);
      });
}

void exp(const double* x, std::size_t n, double* out) {
  by_eights(
      x, n, 0.0, [](double v) { return el::exp(v); },
      [&](std::size_t i, std::size_t count, const double* group) {
        copy_group(count, group, out + i);
      });
}

void log(const double* x, std::size_t n, double* out) {
  by_eights(
      x, n, 1.0, [](double v) { return el::log(v); },
      [&](std::size_t i, std::size_t count, const double* group) {
        copy_group(count, group, out + i);
      });
}

// out_i = entry(i-th entries), for a vector or one entry at a time.
template <class Entry>
DPOCO_INLINE void by_entries(std::size_t n, double* out, Entry entry) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(out + i, entry(Doubles{}, i));
  for (; i < n; ++i) out[i] = entry(double{}, i);
}

void scale(double a, const double* x, std::size_t n, double* out) {
  by_entries(n, out, [=]<class V>(V, std::size_t i) { return a * get<V>(x + i); });
}

void against(double a, const double* x, std::size_t n, double* out) {
  by_entries(n, out, [=]<class V>(V zero, std::size_t i) {
    const V entry = get<V>(x + i);
    const V below = entry < 0.0 ? a + zero : zero;
    return entry > 0.0 ? zero - a : below;
  });
}

bool approach(double a, const double* from, const double* to, std::size_t n, double* out) {
  std::uint64_t changed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double moved = from[i] + a * (to[i] - from[i]);
    changed |= el::to_bits(moved) ^ el::to_bits(from[i]);
    out[i] = moved;
  }
  return changed != 0;
}

void signed_square(const double* x, std::size_t n, double scale, double* out) {
  by_entries(n, out, [=]<class V>(V, std::size_t i) {
    const V t = get<V>(x + i) * scale;
    return t * (t < 0.0 ? -t : t);
  });
}

void axpy(double a, const double* x, std::size_t n, double* y) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(y + i) + a * load(x + i));
  for (; i < n; ++i) y[i] += a * x[i];
}

// Processes the last n % kWidth entries one by one. The barrier keeps compilers from vectorising
// this loop, which would cost more bookkeeping than work.
template <class Entry>
DPOCO_INLINE void remaining(std::size_t i, std::size_t n, Entry entry) {
  for (; i < n; ++i) {
    entry(i);
    __asm__ volatile("");
  }
}

void accumulate(double a, const double* x, std::size_t n, double* sum, double* rest) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    Doubles s = load(sum + i);
    Doubles r = load(rest + i);
    add_compensated(a * load(x + i), s, r);
    store(sum + i, s);
    store(rest + i, r);
  }
  remaining(i, n, [=](std::size_t at) { add_compensated(a * x[at], sum[at], rest[at]); });
}

void extend(const double* base, const double* z, double scale, std::size_t n, double* prefix,
            double* out) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const Doubles own = scale * load(z + i);
    const Doubles v = base == nullptr ? own : load(base + i) + own;
    store(prefix + i, v);
    store(out + i, v);
  }
  remaining(i, n, [=](std::size_t at) {
    const double own = scale * z[at];
    prefix[at] = base == nullptr ? own : base[at] + own;
    out[at] = prefix[at];
  });
}

// From 2^51 multiples on the sum would be inexact, so such a value stays as it is.
DPOCO_INLINE Doubles nearest_multiple(Doubles x, double grid, double inverse) {
  const Doubles scaled = x * inverse;
  const Doubles rounded = (scaled + el::kRoundMagic) - el::kRoundMagic;
  constexpr double kLimit = 2251799813685248.0;
  return (((scaled < kLimit) & (scaled > -kLimit)) ? rounded : scaled) * grid;
}

DPOCO_INLINE double nearest_multiple(double x, double grid, double inverse) {
  const double scaled = x * inverse;
  const double rounded = (scaled + el::kRoundMagic) - el::kRoundMagic;
  return (__builtin_fabs(scaled) < 2251799813685248.0 ? rounded : scaled) * grid;
}

// Calls columns(V{}, firsts) with the first columns of two vectors of type V at a time, until n
// columns are covered: the chains of operations of the two vectors fill each other's gaps. Columns
// that both vectors contain are computed twice, with the same result, because all values are read
// before any is written.
template <class Columns>
DPOCO_INLINE void by_columns(std::size_t n, Columns columns) {
  if (n < kWidth) {
    for (std::size_t i = 0; i < n; i += 2) {
      const std::size_t firsts[] = {i, i + 1 < n ? i + 1 : i};
      columns(double{}, firsts);
    }
    return;
  }
  const std::size_t vectors = (n + kWidth - 1) / kWidth;
  if (vectors % 2 != 0) {
    const std::size_t firsts[] = {0, 0};
    columns(Doubles{}, firsts);
  }
  for (std::size_t v = vectors % 2; v < vectors; v += 2) {
    const std::size_t last = n - kWidth;
    const std::size_t firsts[] = {v * kWidth, (v + 1) * kWidth < last ? (v + 1) * kWidth : last};
    columns(Doubles{}, firsts);
  }
}

template <class Round>
DPOCO_INLINE void release_rounded(std::size_t rounds, const double* a, const double* g,
                                  const double* noise, std::size_t n, double* sum, double* rest,
                                  double* out, Round round) {
  by_columns(n, [=]<class V>(V, const std::size_t* at) {
    V s[2] = {get<V>(sum + at[0]), get<V>(sum + at[1])};
    V r[2] = {get<V>(rest + at[0]), get<V>(rest + at[1])};
    for (std::size_t t = 0, row = 0; t < rounds; ++t, row += n) {
      for (int k = 0; k < 2; ++k) {
        add_compensated(a[t] * get<V>(g + row + at[k]), s[k], r[k]);
        put(out + row + at[k], round(s[k] + get<V>(noise + row + at[k])));
      }
    }
    for (int k = 0; k < 2; ++k) put(sum + at[k], s[k]);
    for (int k = 0; k < 2; ++k) put(rest + at[k], r[k]);
  });
}

void release(std::size_t rounds, const double* a, const double* g, const double* noise, double grid,
             std::size_t n, double* sum, double* rest, double* out) {
  if (grid == 0.0) {
    return release_rounded(rounds, a, g, noise, n, sum, rest, out, [](auto x) { return x; });
  }
  const double inverse = 1.0 / grid;  // a power of two: exact
  release_rounded(rounds, a, g, noise, n, sum, rest, out,
                  [=](auto x) { return nearest_multiple(x, grid, inverse); });
}

// Plays the rounds of a buffered process. step(held, z) returns a round's own part of the noise,
// and advances the buffers.
template <std::size_t kBuffers, class Step>
DPOCO_INLINE void buffered(std::size_t rounds, std::size_t n, double* state, double* total,
                           double* z, Step step) {
  by_columns(n, [=]<class V>(V, const std::size_t* at) {
    V held[2][kBuffers];
    V sum[2];
    for (int k = 0; k < 2; ++k) {
      sum[k] = get<V>(total + at[k]);
      for (std::size_t j = 0; j < kBuffers; ++j) held[k][j] = get<V>(state + j * n + at[k]);
    }
    double* row = z;
    for (std::size_t t = 0; t < rounds; ++t, row += n) {
      const V drawn[2] = {get<V>(row + at[0]), get<V>(row + at[1])};
      for (int k = 0; k < 2; ++k) {
        sum[k] += step(held[k], drawn[k]);
        put(row + at[k], sum[k]);
      }
    }
    for (int k = 0; k < 2; ++k) {
      put(total + at[k], sum[k]);
      for (std::size_t j = 0; j < kBuffers; ++j) put(state + j * n + at[k], held[k][j]);
    }
  });
}

// The usual number of buffers of a process.
constexpr std::size_t kUsual = 5;

void blt(std::size_t rounds, std::size_t n, double scale, std::size_t buffers, const double* keep,
         const double* omega, double* state, double* total, double* z) {
  if (buffers == kUsual) {
    return buffered<kUsual>(rounds, n, state, total, z, [=]<class V>(V* held, V drawn) {
      V w = scale * drawn;
      for (std::size_t j = 0; j < kUsual; ++j) w -= omega[j] * held[j];
      for (std::size_t j = 0; j < kUsual; ++j) held[j] = keep[j] * held[j] + w;
      return w;
    });
  }
  for (std::size_t r = 0; r < rounds; ++r, z += n) {
    for (std::size_t i = 0; i < n; ++i) {
      double w = scale * z[i];
      for (std::size_t j = 0; j < buffers; ++j) w -= omega[j] * state[j * n + i];
      for (std::size_t j = 0; j < buffers; ++j) state[j * n + i] = keep[j] * state[j * n + i] + w;
      total[i] += w;
      z[i] = total[i];
    }
  }
}

#include "lattice.inl"

#include "rows.inl"

#include "experts.inl"

#include "blake2b.inl"

}  // namespace

const Kernels DPOCO_VARIANT = {DPOCO_VARIANT_NAME,
                               words,
                               uniform,
                               gaussian,
                               exponential,
                               laplace,
                               gumbel,
                               any_outside,
                               dot,
                               sum,
                               max_abs,
                               abs_power_sum,
                               signed_power,
                               signed_square,
                               exp,
                               log,
                               scale,
                               against,
                               approach,
                               axpy,
                               accumulate,
                               accumulate_rounded,
                               extend,
                               release,
                               round_gaussians,
                               lattice_release,
                               lattice_blt,
                               blt,
                               lane_dots,
                               lane_sums,
                               lane_grams,
                               sigmoid,
                               sigmoid_slope,
                               admit_losses,
                               smallest,
                               tilt,
                               affine,
                               cusum,
                               keyed_digests,
                               eliminate,
                               admit_sums};

}  // namespace dpoco::simd
