// The key stream; a part of kernels.inl.

// Original layout: 64-bit block counter (words 12, 13), 64-bit nonce (words 14, 15). Sixteen blocks
// are computed side by side. Word w of block b is stored at 16 w + b for every vector width.

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

DPOCO_INLINE Words lane_numbers() {
  alignas(DPOCO_VECTOR_BYTES) static constexpr std::uint32_t kNumbers[16] = {
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Words numbers;
  __builtin_memcpy(&numbers, kNumbers, sizeof numbers);
  return numbers;
}

// The number of groups of kLanes blocks that are processed in turn, so that the chain of operations
// of one group fills the gaps of the other.
constexpr std::size_t kGroups = kLanes == 16 ? 1 : 2;

DPOCO_INLINE void superblock(const Position& at, std::uint64_t index, std::uint32_t* out) {
  for (std::size_t first = 0; first < 16; first += kGroups * kLanes) {
    Words start[16];
    const std::uint32_t constants[4] = {0x61707865U, 0x3320646eU, 0x79622d32U, 0x6b206574U};
    for (int i = 0; i < 4; ++i) start[i] = Words{} + constants[i];
    for (int i = 0; i < 8; ++i) start[4 + i] = Words{} + at.key[i];
    // The low counter word never carries within a superblock: its first block is a multiple of 16.
    const std::uint64_t block = index * 16 + first;
    start[12] = lane_numbers() + static_cast<std::uint32_t>(block);
    start[13] = Words{} + static_cast<std::uint32_t>(block >> 32);
    start[14] = Words{} + static_cast<std::uint32_t>(at.nonce);
    start[15] = Words{} + static_cast<std::uint32_t>(at.nonce >> 32);

    Words state[kGroups][16];
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (int i = 0; i < 16; ++i) state[g][i] = start[i];
      state[g][12] += static_cast<std::uint32_t>(g * kLanes);
    }
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
      for (std::size_t g = 0; g < kGroups; ++g) {
        Words* x = state[g];
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
      }
#pragma GCC unroll 2
      for (std::size_t g = 0; g < kGroups; ++g) {
        Words* x = state[g];
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
      }
    }
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (std::size_t i = 0; i < 16; ++i) {
        Words word = state[g][i] + start[i];
        if (i == 12) word += static_cast<std::uint32_t>(g * kLanes);
        __builtin_memcpy(out + 16 * i + first + g * kLanes, &word, sizeof word);
      }
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
