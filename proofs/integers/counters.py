"""Every 64-bit value at once, by z3: counters, splits of logarithms, sums on the lattice.

Comments quote what is transcribed below them; tests/docs/test_proofs.py holds them to the code.
"""

import z3

failed = []


def prove(name, *claims, given=()):
    """Print whether no 64-bit values satisfy what is given and break a claim."""
    solver = z3.Solver()
    solver.set("timeout", 120_000)
    solver.add(*given)
    solver.add(z3.Not(z3.And(*claims)))
    found = solver.check()
    print(f"{'proved' if found == z3.unsat else f'NOT PROVED ({found})'}: {name}", flush=True)
    if found != z3.unsat:
        failed.append(name)


def word(name):
    """Return an unknown 64-bit word."""
    return z3.BitVec(name, 64)


def below(x, exponent):
    """Say that an unsigned word is below a power of two."""
    return z3.ULT(x, z3.BitVecVal(1 << exponent, 64))


shifted_down = z3.LShR

# -- counters of blocks: words 12 and 13 of block b of a superblock, for 4, 8 and 16 lanes
# cpp/src/simd/chacha.inl:
#     const std::uint64_t block = index * 16 + first;
#     start[12] = lane_numbers() + static_cast<std::uint32_t>(block);
#     start[13] = Words{} + static_cast<std::uint32_t>(block >> 32);
index, other = word("index"), word("other")
for lanes in (4, 8, 16):
    groups = 1 if lanes == 16 else 2
    claims = []
    for first in range(0, 16, groups * lanes):
        block = index * 16 + first
        low, high = z3.Extract(31, 0, block), z3.Extract(63, 32, block)
        for lane in range(groups * lanes):
            claims.append(z3.Concat(high, low + lane) == index * 16 + (first + lane))
    prove(f"counter words of superblock i, {lanes} lanes, are the 64-bit number 16 i + b", *claims)
prove(
    "superblocks below 2^60 have different counters",
    index == other,
    given=[below(index, 60), below(other, 60), index * 16 == other * 16],
)

# -- nonces
# cpp/src/random/source.cpp:
#     return {key_.data(), (stream_ << 4) | nonce, superblock};
s, t, k, m = word("s"), word("t"), word("k"), word("m")
prove(
    "nonces of streams below 2^60 and kinds below 16 are different",
    s == t,
    k == m,
    given=[below(s, 60), below(t, 60), below(k, 4), below(m, 4), (s << 4) | k == (t << 4) | m],
)

# -- further digits of pairs
# cpp/src/random/source.cpp:
#     const std::uint64_t pair = place / simd::kSuperblock * kHalf + place % kHalf;
# cpp/include/dpoco/simd/kernels.hpp:
#     inline constexpr std::size_t kSuperblock = 128;
# cpp/include/dpoco/random/variates.hpp:
#     inline constexpr std::uint64_t kPositions = 1ULL << 61;
p, q = word("p"), word("q")


def pair(place):
    """Return the number of a pair."""
    return z3.UDiv(place, 128) * 64 + z3.URem(place, 64)


prove(
    "two positions share further digits only as members of one pair",
    z3.Or(p == q, p == q ^ 64),
    given=[pair(p) == pair(q)],
)
prove("members of one pair share them", pair(p) == pair(p ^ 64))
prove(
    "their superblocks are below 2^60 for positions below 2^61",
    below(pair(p), 60),
    given=[below(p, 61)],
)

# -- split_log, x normal and positive
# cpp/include/dpoco/simd/elementary.hpp:
#     const std::uint64_t ix = to_bits(x) + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL);
#     const std::uint64_t exponent = ix >> 52;
#     const std::uint64_t mantissa = (ix & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL;
#     k = from_bits(exponent | 0x4330000000000000ULL) - (4503599627370496.0 + 1023.0);
x = word("x")
ix = x + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
mantissa = (ix & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD
power = shifted_down(ix, 52) - 1023
prove(
    "split_log: x = m 2^k bit by bit, sqrt(1/2) <= m < sqrt 2 (as bits), -1074 <= k <= 1024",
    mantissa + (power << 52) == x,
    z3.UGE(mantissa, 0x3FE6A09E667F3BCD),
    z3.ULT(mantissa, z3.BitVecVal(0x3FF6A09E667F3BCD, 64)),
    power >= -1074,
    power <= 1024,
    given=[z3.UGE(x, 1 << 52), z3.ULT(x, z3.BitVecVal(0x7FF0000000000000, 64))],
)

# -- a release: sums within 2^61, noise within 2^50
# cpp/src/simd/lattice.inl:
#     constexpr std::uint64_t kMagic = 0x4338000000000000ULL;
#     const std::uint64_t half = shift > 0 ? 1ULL << (shift - 1) : 0;
#     const Longs cut = (Longs)(sum + noise_bits + (half - kMagic)) >> static_cast<int>(shift);
#     constexpr std::uint64_t kOffset = 1ULL << 62;
#     const U released = (sum + noise_bits + (kOffset + half - kMagic)) >> shift;
#     const double offset = static_cast<double>(kOffset >> shift);
total, noise = word("total"), word("noise")
magic = 0x4338000000000000
for shift in (0, 1, 4, 8, 16, 17):
    half = 1 << (shift - 1) if shift else 0
    noise_bits = noise + magic
    cut = (total + noise_bits + (half - magic)) >> shift  # keeps the sign
    released = shifted_down(total + noise_bits + ((1 << 62) + half - magic), shift)
    exact = (z3.SignExt(8, total) + z3.SignExt(8, noise) + half) >> shift
    prove(
        f"release: floor((S + z + half) / 2^{shift}) without wrap",
        z3.ZeroExt(8, released) - (1 << (62 - shift)) == exact,
        z3.SignExt(8, cut) == exact,
        given=[total <= 1 << 61, total >= -(1 << 61), noise <= 1 << 50, noise >= -(1 << 50)],
    )

# -- prefixes of the tree
# cpp/src/mechanisms/noise_process.cpp:
#     const std::uint64_t before = t & (t - 1);
low = t & -t
before = t & (t - 1)
prove(
    "the prefix before the completed node ends where the node begins",
    before == t - low,
    z3.Or(before == 0, z3.UGT(before & -before, low)),
    given=[t != 0],
)

raise SystemExit(f"NOT PROVED: {', '.join(failed)}" if failed else 0)
