// Uniform words to variates; a part of kernels.inl.

// Integers of kBits = 62 to 64 bits as uniforms. The two halves of j become doubles by their places
// in the mantissas of 2^(84-kBits) and 2^(52-kBits).
template <unsigned kBits>
struct Grid {
  static constexpr std::uint64_t kHighBits = (1023ULL + 84 - kBits) << 52;
  static constexpr std::uint64_t kLowBits = (1023ULL + 52 - kBits) << 52;
  static constexpr std::uint64_t kHighMask = (1ULL << (kBits - 32)) - 1;
  static constexpr std::uint64_t kLowMask = 0xffffffffULL;
  static constexpr double kUnit = kBits == 64 ? 0x1p-64 : kBits == 63 ? 0x1p-63 : 0x1p-62;
  static constexpr double kOffset = kUnit * (0x1p84 + 0x1p52);

  // (j + 1/2) 2^-kBits, correctly rounded except for the half: one sum of two exact halves.
  DPOCO_INLINE double uniform(std::uint64_t j) {
    const double high = el::from_bits((j >> 32) | kHighBits);
    const double low = el::from_bits((j & kLowMask) | kLowBits);
    return ((high - kOffset) + low) + 0.5 * kUnit;
  }

  // The same for the complement 2^kBits - 1 - j: 1 - uniform(j) without cancellation.
  DPOCO_INLINE double complement(std::uint64_t j) {
    const double high = el::from_bits((j >> 32) ^ (kHighBits | kHighMask));
    const double low = el::from_bits((j & kLowMask) ^ (kLowBits | kLowMask));
    return ((high - kOffset) + low) + 0.5 * kUnit;
  }
};

// A superblock of variates is computed in passes over small arrays. The chain of operations of one
// variate is so long that a processor cannot overlap enough of them in a single loop.
struct Logarithms {
  alignas(64) double f[kSuperblock];
  alignas(64) double k[kSuperblock];
};

// Prepares log(u), u = uniform(j) = (1 + f) 2^k. For k = 0, f is the exact u - 1, so there is no
// relative error near u = 1.
template <unsigned kBits>
DPOCO_INLINE void split_uniform(std::uint64_t j, double& f, double& k) {
  double split;
  el::split_log(Grid<kBits>::uniform(j), split, k);
  f = k == 0.0 ? -Grid<kBits>::complement(j) : split;
}

// to_i = -log u_i, which has the law Exp(1).
DPOCO_INLINE void exponentials(const std::uint64_t* raw, std::size_t n, double* to) {
  Logarithms logs;
  for (std::size_t i = 0; i < n; ++i) split_uniform<64>(raw[i], logs.f[i], logs.k[i]);
  for (std::size_t i = 0; i < n; ++i) to[i] = -el::log_reduced(logs.f[i], logs.k[i]);
}

// A uniform point on the circle from 64 bits: the top two are the quadrant, the others an angle in
// it, measured from the nearer axis. So the smaller coordinate also keeps its relative precision.
// An angle on a coarse grid would show in the ratio of two coordinates.
DPOCO_INLINE double to_angle(std::uint64_t j) {
  const std::uint64_t in_quadrant = j & ((1ULL << 62) - 1);
  const double u = Grid<62>::uniform(in_quadrant);
  const double complement = Grid<62>::complement(in_quadrant);
  return 1.5707963267948966 * (u < complement ? u : complement);
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
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = Grid<64>::uniform(raw[i]);
  });
}

void gaussian(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    constexpr std::size_t kPairs = kSuperblock / 2;
    alignas(64) double radius[kPairs];
    exponentials(raw, kPairs, radius);
    for (std::size_t i = 0; i < kPairs; ++i) radius[i] = __builtin_sqrt(2.0 * radius[i]);
    alignas(64) double angle[kPairs];
    for (std::size_t i = 0; i < kPairs; ++i) angle[i] = to_angle(raw[kPairs + i]);
    for (std::size_t i = 0; i < kPairs; ++i) {
      const std::uint64_t j = raw[kPairs + i];
      const std::uint64_t q = j >> 62;
      const std::uint64_t c = el::to_bits(el::cosine(angle[i]));
      const std::uint64_t s = el::to_bits(el::sine(angle[i]));
      // Beyond the diagonal of the quadrant (bit 61) the roles swap. A quarter turn (bit 62) swaps
      // again.
      const std::uint64_t swap = (c ^ s) & (0 - (((j >> 61) ^ q) & 1));
      const std::uint64_t x = c ^ swap ^ (((q + 1) & 2) << 62);
      const std::uint64_t y = s ^ swap ^ ((q & 2) << 62);
      to[i] = radius[i] * el::from_bits(x);
      to[kPairs + i] = radius[i] * el::from_bits(y);
    }
  });
}

void exponential(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out,
       [](const std::uint64_t* raw, double* to) { exponentials(raw, kSuperblock, to); });
}

void laplace(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    Logarithms logs;
    for (std::size_t i = 0; i < kSuperblock; ++i) {
      split_uniform<63>(raw[i] >> 1, logs.f[i], logs.k[i]);
    }
    for (std::size_t i = 0; i < kSuperblock; ++i) {
      const double e = -el::log_reduced(logs.f[i], logs.k[i]);
      to[i] = el::from_bits(el::to_bits(e) ^ (raw[i] << 63));
    }
  });
}

void gumbel(Position at, std::size_t superblocks, double* out) {
  fill(at, superblocks, out, [](const std::uint64_t* raw, double* to) {
    exponentials(raw, kSuperblock, to);
    Logarithms logs;
    for (std::size_t i = 0; i < kSuperblock; ++i) el::split_log(to[i], logs.f[i], logs.k[i]);
    for (std::size_t i = 0; i < kSuperblock; ++i) to[i] = -el::log_reduced(logs.f[i], logs.k[i]);
  });
}

bool any_outside(const double* x, std::size_t n, double low, double high, bool absolute) {
  const std::uint64_t kept = ~0ULL >> (absolute ? 1 : 0);
  std::uint64_t outside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = el::from_bits(el::to_bits(x[i]) & kept);
    outside |= static_cast<std::uint64_t>(value < low) | static_cast<std::uint64_t>(value > high);
  }
  return outside != 0;
}
