// Keyed digests of rows (BLAKE2b, RFC 7693), several rows side by side; a part of kernels.inl.

typedef std::uint64_t Quads __attribute__((vector_size(DPOCO_VECTOR_BYTES)));
constexpr std::size_t kQuadLanes = DPOCO_VECTOR_BYTES / 8;

constexpr std::uint64_t kBlakeStart[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL};
constexpr std::uint8_t kBlakeOrder[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

template <int kBits>
DPOCO_INLINE Quads turn(Quads x) {
  return (x >> kBits) | (x << (64 - kBits));
}

DPOCO_INLINE void blake_mix(Quads& a, Quads& b, Quads& c, Quads& d, Quads x, Quads y) {
  a += b + x;
  d = turn<32>(d ^ a);
  c += d;
  b = turn<24>(b ^ c);
  a += b + y;
  d = turn<16>(d ^ a);
  c += d;
  b = turn<63>(b ^ c);
}

// Adds one block of sixteen words to each lane. `length` is the number of bytes including this
// block, the same for all lanes.
DPOCO_INLINE void blake_block(Quads* h, const Quads* m, std::uint64_t length, bool last) {
  Quads v[16];
  for (int i = 0; i < 8; ++i) v[i] = h[i];
  for (int i = 0; i < 8; ++i) v[8 + i] = Quads{} + kBlakeStart[i];
  v[12] ^= length;
  if (last) v[14] = ~v[14];
#pragma GCC unroll 12
  for (int round = 0; round < 12; ++round) {
    const std::uint8_t* s = kBlakeOrder[round % 10];
    blake_mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
    blake_mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
    blake_mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
    blake_mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
    blake_mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
    blake_mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
    blake_mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
    blake_mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
  }
  for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[8 + i];
}

// The message of a row is its number (first, first + 1, ...) followed by its `width` words. The
// words may be those of doubles, because they are read byte by byte.
void keyed_digests(const std::uint64_t* key, std::uint64_t first, const std::uint64_t* rows,
                   std::size_t count, std::size_t width, std::uint64_t* out) {
  Quads keyed[8];
  for (int i = 0; i < 8; ++i) keyed[i] = Quads{} + kBlakeStart[i];
  keyed[0] ^= 0x01010000ULL ^ (32ULL << 8) ^ 16ULL;  // key of 32 bytes, digest of 16, no tree
  Quads block[16] = {};
  for (int i = 0; i < 4; ++i) block[i] = Quads{} + key[i];
  blake_block(keyed, block, 128, false);

  const std::size_t words = width + 1;
  for (std::size_t row = 0; row < count; row += kQuadLanes) {
    const std::size_t lanes = count - row < kQuadLanes ? count - row : kQuadLanes;
    Quads h[8];
    for (int i = 0; i < 8; ++i) h[i] = keyed[i];
    for (std::size_t done = 0; done < words; done += 16) {
      alignas(DPOCO_VECTOR_BYTES) std::uint64_t raw[16][kQuadLanes] = {};
      const std::size_t here = words - done < 16 ? words - done : 16;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t* from = rows + (row + lane) * width;
        for (std::size_t i = done == 0 ? 1 : 0; i < here; ++i) {
          __builtin_memcpy(&raw[i][lane], from + (done + i - 1), sizeof raw[i][lane]);
        }
        if (done == 0) raw[0][lane] = first + row + lane;
      }
      __builtin_memcpy(block, raw, sizeof block);
      blake_block(h, block, 128 + 8 * (done + here), done + here == words);
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      out[2 * (row + lane)] = h[0][lane];
      out[2 * (row + lane) + 1] = h[1][lane];
    }
  }
}
