// Body of the kernels; the including file sets the instruction set (by compiler flags),
// DPOCO_VECTOR_BYTES and the names. Everything has internal linkage except the table at the end:
// an out-of-line copy built for a wide instruction set must not be shared with other files, so
// only headers without out-of-line functions are included.

#include "dpoco/simd/elementary.hpp"
#include "variants.hpp"

namespace dpoco::simd {
namespace {

namespace el = elementary;

constexpr std::size_t kPartials = 8;

// ---- ChaCha20 -----------------------------------------------------------------------------------
// Original layout: 64-bit block counter (words 12, 13), 64-bit nonce (words 14, 15). Sixteen blocks
// are computed side by side; word w of block b is stored at 16 w + b whatever the vector width.

typedef std::uint32_t Words __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
constexpr std::size_t kLanes = DPOCO_VECTOR_BYTES / 4;

template <int kBits>
DPOCO_INLINE Words rotate(Words x) {
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__clang__)
  if constexpr (kBits == 16 || kBits == 8) {  // a byte shuffle is one instruction
    typedef std::uint8_t Bytes __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
    Bytes order;
    for (int i = 0; i < DPOCO_VECTOR_BYTES; ++i) {
      order[i] = static_cast<std::uint8_t>((i & ~3) | ((i + 4 - kBits / 8) & 3));
    }
    return (Words)__builtin_shuffle((Bytes)x, order);
  }
#endif
  return (x << kBits) | (x >> (32 - kBits));
}

DPOCO_INLINE void quarter_round(Words& a, Words& b, Words& c, Words& d) {
  a += b;
  d = rotate<16>(d ^ a);
  c += d;
  b = rotate<12>(b ^ c);
  a += b;
  d = rotate<8>(d ^ a);
  c += d;
  b = rotate<7>(b ^ c);
}

DPOCO_INLINE void superblock(const Position& at, std::uint64_t index, std::uint32_t* out) {
  for (std::size_t first = 0; first < 16; first += kLanes) {
    Words start[16];
    const std::uint32_t constants[4] = {0x61707865U, 0x3320646eU, 0x79622d32U, 0x6b206574U};
    for (int i = 0; i < 4; ++i) start[i] = Words{} + constants[i];
    for (int i = 0; i < 8; ++i) start[4 + i] = Words{} + at.key[i];
    // The low counter word never carries within a superblock: its first block is a multiple of 16.
    const std::uint64_t block = index * 16 + first;
    std::uint32_t low[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      low[lane] = static_cast<std::uint32_t>(block) + lane;
    }
    __builtin_memcpy(&start[12], low, sizeof low);
    start[13] = Words{} + static_cast<std::uint32_t>(block >> 32);
    start[14] = Words{} + static_cast<std::uint32_t>(at.nonce);
    start[15] = Words{} + static_cast<std::uint32_t>(at.nonce >> 32);

    Words x[16];
    for (int i = 0; i < 16; ++i) x[i] = start[i];
    for (int round = 0; round < 10; ++round) {
      quarter_round(x[0], x[4], x[8], x[12]);
      quarter_round(x[1], x[5], x[9], x[13]);
      quarter_round(x[2], x[6], x[10], x[14]);
      quarter_round(x[3], x[7], x[11], x[15]);
      quarter_round(x[0], x[5], x[10], x[15]);
      quarter_round(x[1], x[6], x[11], x[12]);
      quarter_round(x[2], x[7], x[8], x[13]);
      quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (std::size_t i = 0; i < 16; ++i) {
      const Words word = x[i] + start[i];
      __builtin_memcpy(out + 16 * i + first, &word, sizeof word);
    }
  }
}

void words(Position at, std::size_t superblocks, std::uint64_t* out) {
  for (std::size_t b = 0; b < superblocks; ++b) {
    std::uint32_t raw[2 * kSuperblock];
    superblock(at, at.superblock + b, raw);
    __builtin_memcpy(out + b * kSuperblock, raw, sizeof raw);
  }
}

// ---- variates -----------------------------------------------------------------------------------

// (j + 1/2) as a double, correctly rounded but for the half: two exact halves joined by one sum.
DPOCO_INLINE double half_up(std::uint64_t j) {
  const double high = el::from_bits((j >> 32) | 0x4530000000000000ULL);           // 2^84 + hi 2^32
  const double low = el::from_bits((j & 0xffffffffULL) | 0x4330000000000000ULL);  // 2^52 + lo
  return ((high - 19342813118337666422669312.0) + low) + 0.5;
}

// -log(u) where u and its exact complement 1 - u are both given: no relative error near u = 1.
DPOCO_INLINE double minus_log(double u, double complement) {
  const bool near_one = complement < 0.29289321881345243;  // 1 - sqrt(1/2)
  const double x = near_one ? 1.0 : u;
  double f;
  double k;
  el::split_log(x, f, k);
  return -el::log_reduced(near_one ? -complement : f, k);
}

constexpr double kTwoToMinus64 = 5.421010862427522e-20;

DPOCO_INLINE double exponential_of(std::uint64_t j) {
  return minus_log(half_up(j) * kTwoToMinus64, half_up(~j) * kTwoToMinus64);
}

DPOCO_INLINE double laplace_of(std::uint64_t j) {
  constexpr double kTwoToMinus63 = 2.0 * kTwoToMinus64;
  const std::uint64_t magnitude = j >> 1;
  const std::uint64_t complement = (~j) >> 1;
  const double e =
      minus_log(half_up(magnitude) * kTwoToMinus63, half_up(complement) * kTwoToMinus63);
  return el::from_bits(el::to_bits(e) ^ (j << 63));
}

// A uniform point of the circle from 64 bits: the top two are the quadrant, the others an angle in
// it, measured from the nearer axis. So the small coordinate keeps its relative precision, too:
// an angle on a coarse grid would show in the ratio of two coordinates.
DPOCO_INLINE void circle_point(std::uint64_t j, double& cosine, double& sine) {
  constexpr double kTwoToMinus62 = 2.168404344971009e-19;
  constexpr std::uint64_t kMask = (1ULL << 62) - 1;
  const double u = half_up(j & kMask) * kTwoToMinus62;
  const double complement = half_up(~j & kMask) * kTwoToMinus62;
  const double x = 1.5707963267948966 * (u < complement ? u : complement);
  const double z = x * x;
  const double s =
      x + x * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double c =
      1.0 - 0.5 * z +
      z * z *
          (4.16666666666666019037e-02 +
           z * (-1.38888888888741095749e-03 +
                z * (2.48015872894767294178e-05 +
                     z * (-2.75573143513906633035e-07 +
                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  // Past the diagonal of its quadrant (bit 61) the roles swap; a quarter turn (bit 62) swaps again.
  const std::uint64_t q = j >> 62;
  const std::uint64_t swap = 0 - (((j >> 61) ^ q) & 1);
  const std::uint64_t cb = el::to_bits(c);
  const std::uint64_t sb = el::to_bits(s);
  cosine = el::from_bits(((cb & ~swap) | (sb & swap)) ^ (((q + 1) & 2) << 62));
  sine = el::from_bits(((sb & ~swap) | (cb & swap)) ^ ((q & 2) << 62));
}

template <class Transform>
DPOCO_INLINE void fill(const Position& at, std::size_t superblocks, double* out,
                       Transform transform) {
  for (std::size_t b = 0; b < superblocks; ++b) {
    alignas(64) std::uint64_t raw[kSuperblock];
    std::uint32_t halves[2 * kSuperblock];
    superblock(at, at.superblock + b, halves);
    __builtin_memcpy(raw, halves, sizeof raw);
    transform(raw, out + b * kSuperblock);
  }
}

void uniform(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = half_up(raw[i]) * kTwoToMinus64;
  });
}

void gaussian(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    constexpr std::size_t kPairs = kSuperblock / 2;
    for (std::size_t i = 0; i < kPairs; ++i) {
      const double radius = __builtin_sqrt(2.0 * exponential_of(raw[i]));
      double cosine;
      double sine;
      circle_point(raw[kPairs + i], cosine, sine);
      to[i] = radius * cosine;
      to[kPairs + i] = radius * sine;
    }
  });
}

void exponential(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = exponential_of(raw[i]);
  });
}

void laplace(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = laplace_of(raw[i]);
  });
}

void gumbel(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = -el::log(exponential_of(raw[i]));
  });
}

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

DPOCO_INLINE double add_partials(const double* a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

double dot(const double* x, const double* y, std::size_t n) {
  Doubles acc[kParts] = {};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t p = 0; p < kParts; ++p) {
      acc[p] += load(x + i + p * kWidth) * load(y + i + p * kWidth);
    }
  }
  double partial[kPartials];
  for (std::size_t p = 0; p < kParts; ++p) store(partial + p * kWidth, acc[p]);
  for (std::size_t lane = 0; i < n; ++i, ++lane) partial[lane] += x[i] * y[i];
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
  double largest[kPartials] = {};
  double spoiled[kPartials] = {};  // becomes NaN when a NaN or an infinity passes
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t lane = 0; lane < kPartials; ++lane) {
      const double a = __builtin_fabs(x[i + lane]);
      largest[lane] = a > largest[lane] ? a : largest[lane];
      spoiled[lane] += x[i + lane] * 0.0;
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) {
    const double a = __builtin_fabs(x[i]);
    largest[lane] = a > largest[lane] ? a : largest[lane];
    spoiled[lane] += x[i] * 0.0;
  }
  double m = largest[0];
  for (std::size_t lane = 1; lane < kPartials; ++lane) m = largest[lane] > m ? largest[lane] : m;
  return m + add_partials(spoiled);
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
    double rest[kPartials];
    for (std::size_t lane = 0; lane < kPartials; ++lane) rest[lane] = pad;
    for (std::size_t lane = 0; lane < n - i; ++lane) rest[lane] = x[i + lane];
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

void axpy(double a, const double* x, std::size_t n, double* y) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(y + i) + a * load(x + i));
  for (; i < n; ++i) y[i] += a * x[i];
}

void round_to(double grid, std::size_t n, double* x) {
  const double inverse = 1.0 / grid;  // a power of two: exact
  for (std::size_t i = 0; i < n; ++i) {
    const double scaled = x[i] * inverse;
    const double rounded = (scaled + el::kRoundMagic) - el::kRoundMagic;
    // From 2^51 on the sum above would be inexact; such a value is left as it is.
    x[i] = (__builtin_fabs(scaled) < 2251799813685248.0 ? rounded : scaled) * grid;
  }
}

void blt_step(const double* z, std::size_t n, std::size_t buffers, const double* keep,
              const double* omega, double* state, double* total) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    Doubles w = load(z + i);
    for (std::size_t j = 0; j < buffers; ++j) w -= omega[j] * load(state + j * n + i);
    for (std::size_t j = 0; j < buffers; ++j) {
      store(state + j * n + i, keep[j] * load(state + j * n + i) + w);
    }
    store(total + i, load(total + i) + w);
  }
  for (; i < n; ++i) {
    double w = z[i];
    for (std::size_t j = 0; j < buffers; ++j) w -= omega[j] * state[j * n + i];
    for (std::size_t j = 0; j < buffers; ++j) state[j * n + i] = keep[j] * state[j * n + i] + w;
    total[i] += w;
  }
}

}  // namespace

const Kernels DPOCO_VARIANT = {DPOCO_VARIANT_NAME,
                               words,
                               uniform,
                               gaussian,
                               exponential,
                               laplace,
                               gumbel,
                               dot,
                               sum,
                               max_abs,
                               abs_power_sum,
                               signed_power,
                               exp,
                               log,
                               axpy,
                               round_to,
                               blt_step};

}  // namespace dpoco::simd
