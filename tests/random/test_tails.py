"""Elementary variates beyond 64 digits: both tails of every law, from further digits of a word.

Words so close to an end come once in 2^47 variates, so the tests bring their own.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import bound, distance

from dpoco import _core
from dpoco.errors import StateError
from dpoco.random import Source

WORD, GAUSSIAN, EXPONENTIAL, LAPLACE, GUMBEL = 0, 2, 3, 4, 5
UNIFORM = 1
KINDS = (UNIFORM, GAUSSIAN, EXPONENTIAL, LAPLACE, GUMBEL)
LAST = (1 << 64) - 1
FEW = 1 << 16
BLOCK, HALF = 128, 64
RNG = np.random.default_rng(11)


def words(count):
    return [int(w) for w in RNG.integers(0, 1 << 64, count, dtype=np.uint64)]


def exact_uniform(word, bits, further):
    """(U, 1 - U), the middle of what the digits leave open, in high precision."""
    digits = word
    for each in further:
        digits, bits = (digits << 64) | each, bits + 64
    unit = mpmath.mpf(2) ** -bits
    return (digits + mpmath.mpf("0.5")) * unit, ((1 << bits) - digits - mpmath.mpf("0.5")) * unit


def exact(kind, word, further):
    """The variate of a word and its digits by definition; of a Gaussian its radius."""
    with mpmath.workprec(1500):
        laplace = kind == LAPLACE
        u, rest = exact_uniform(word >> laplace, 64 - laplace, further)
        if kind == UNIFORM:
            return u
        exponential = -mpmath.log(u) if u < 0.5 else -mpmath.log1p(-rest)
        if kind == GAUSSIAN:
            return mpmath.sqrt(2 * exponential)
        if kind == GUMBEL:
            return -mpmath.log(exponential)
        return -exponential if laplace and word & 1 else exponential


def relative(value, truth):
    return abs(float((mpmath.mpf(value) - truth) / truth))


def ends(kind):
    """Words of both ends: the outermost, the next, the innermost and some between."""
    few = FEW << (kind == LAPLACE)
    near = [0, 1, 2, few - 2, few - 1, *(int(w) % few for w in words(5))]
    return near + [LAST - each for each in near]


@pytest.mark.parametrize("kind", KINDS)
def test_further_digits_continue_a_word(kind):
    """Values near the ends are those of all digits, however many of them are zeros or ones."""
    for word in ends(kind):
        for further in (words(4), [0, 0, 5, *words(2)], [LAST, LAST, LAST - 9, *words(2)]):
            truth = exact(kind, word, further)
            assert relative(probes.variate(kind, word, further), truth) < 4e-15
    # 64 digits alone, which is what a kernel has, are off by more than rounding there.
    assert relative(probes.variate(kind, 1, []), exact(kind, 1, words(4))) > 1e-6


@pytest.mark.parametrize("bits", [63, 64])
def test_both_distances_of_a_uniform(bits):
    for word in (0, 1, FEW - 1, FEW, 1 << 40, (1 << bits) // 3, (1 << bits) - 1, (1 << bits) - 9):
        further = words(3)
        with mpmath.workprec(400):
            truth = exact_uniform(word, bits, further)
            for value, expected in zip(probes.uniform(word, bits, further), truth, strict=True):
                assert relative(value, expected) < 2.0**-17


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_words_need_no_further_digits(kind):
    for word in words(50):
        assert probes.variate(kind, word, words(2)) == probes.variate(kind, word, [])


@pytest.mark.parametrize("kind", [EXPONENTIAL, GUMBEL, GAUSSIAN])
def test_values_fall_with_the_digits_across_the_old_cut_off(kind):
    """Across what 64 digits could reach, and between mended and other words."""
    chains = [(0, [0, 7]), (0, [3]), (0, [LAST]), (1, [0]), (1, [LAST]), (2, [0]),
              (FEW - 1, [LAST]), (FEW, []), (1 << 63, []), (LAST - FEW, []), (LAST - FEW + 1, [0]),
              (LAST, [0]), (LAST, [LAST, 9])]  # fmt: skip
    values = [probes.variate(kind, word, further) for word, further in chains]
    fall = np.diff(values if kind != GUMBEL else [-v for v in values])
    assert np.all(fall <= 0.0)
    assert np.count_nonzero(fall) >= len(fall) - 2  # but where a cell ends, all others differ
    reach = {EXPONENTIAL: 65 * math.log(2), GAUSSIAN: 9.5, GUMBEL: 45.06}[kind]
    assert max(values) > reach  # -log(2^-65) is where 64 digits end


def test_the_law_goes_on_beyond_the_cut_off():
    """Given word 0, the excess of an exponential over 64 log 2 is exponential; given the last

    word, 2^64 times it is uniform; a longer Gaussian radius has the square of an exponential.
    """
    n = 100_000
    further = [[w] for w in words(n)]
    upper = np.array([probes.variate(EXPONENTIAL, 0, w) for w in further]) - 64 * math.log(2.0)
    lower = np.array([probes.variate(EXPONENTIAL, LAST, w) for w in further]) * 2.0**64
    radius = np.array([probes.variate(GAUSSIAN, 0, w) for w in further])
    square = 0.5 * radius**2 - 64 * math.log(2.0)
    for values, cdf in ((upper, scipy.stats.expon.cdf), (square, scipy.stats.expon.cdf),
                        (lower, scipy.stats.uniform.cdf)):  # fmt: skip
        assert distance(values, cdf) < bound(n) < distance(1.05 * values, cdf)


def kernel_values(kind, raw):
    """What a kernel makes of a superblock of words: their variates without further digits."""
    values = np.array([probes.variate(kind, word, []) for word in raw])
    if kind == GAUSSIAN:
        turn = 2 * math.pi * np.array([(w + 0.5) / 2.0**64 for w in raw[HALF:]])
        radius = values[:HALF]
        values = np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])
    return values


@pytest.mark.parametrize("instructions", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("kind", KINDS)
def test_open_values_are_found_and_mended_in_place(kind, instructions):
    try:
        _core.select_instruction_set(instructions)
    except ValueError:
        pytest.skip("this machine lacks the instructions")
    try:
        for word in ends(kind):
            for place in (0, 5, HALF - 1, *(() if kind == GAUSSIAN else (HALF, BLOCK - 1))):
                raw = [w if FEW * 4 < w < LAST - FEW * 4 else 1 << 63 for w in words(BLOCK)]
                further = [words(3) for _ in raw]
                raw[place] = word
                values = before = kernel_values(kind, raw)
                values = before.copy()
                seen = probes.mend_variates(kind, raw, values, further)
                assert seen or (kind == UNIFORM and word > 1 << 63)  # where doubles are 1 anyway
                changed = [place, place + HALF] if kind == GAUSSIAN else [place]
                same = np.delete(np.arange(BLOCK), changed)
                assert np.array_equal(values[same], before[same])
                truth = exact(kind, word, further[place])
                if kind == GAUSSIAN:
                    longer = truth / exact(kind, word, [])
                    for i in changed:
                        assert relative(values[i], before[i] * longer) < 4e-15
                else:
                    assert relative(values[place], truth) < 4e-15
    finally:
        _core.select_instruction_set("auto")


@pytest.mark.parametrize("kind", KINDS)
def test_inner_words_at_the_edge_are_left_alone(kind):
    few = FEW << (kind == LAPLACE)
    for word in (few, LAST - few):
        raw = [1 << 62] * BLOCK
        raw[3] = word
        values = kernel_values(kind, raw)
        before = values.copy()
        probes.mend_variates(kind, raw, values, [[7, 7]] * BLOCK)
        assert np.array_equal(values, before)


def test_uniforms_near_one_do_not_depend_on_their_neighbours():
    """Halfway between doubles further digits would round the other way: draws may be split."""
    word = LAST - 1023  # 2^64 - 2^10
    raw = [word, 0, *words(BLOCK - 2)]
    values = np.array([w * 2.0**-64 for w in raw])
    assert values[0] == 1.0
    assert probes.mend_variates(UNIFORM, raw, values, [[1, 1]] * BLOCK)
    assert values[0] == 1.0
    raw[0], alone = LAST - 3071, (LAST - 3071) * 2.0**-64
    for further in ([0, 0], [LAST, LAST]):
        values[0], values[1] = alone, 2.0**-65
        probes.mend_variates(UNIFORM, raw, values, [further] * BLOCK)
        assert values[0] == alone


def test_every_word_has_digits_of_its_own():
    source = Source.seeded(3)._engine
    seen = set()
    for kind in KINDS:
        for place in (0, 1, 63, 64, 127, 128, 12_345, 2**40 + 77):
            word, further = probes.digits_at(source, kind, place)
            assert len(further) == 64
            seen.update((word, *further))
    assert len(seen) == 5 * 8 * 65
    # Words are those that are drawn; those of a Gaussian pair are the rounded Gaussians' own.
    assert [int(w) for w in source.words(3)] == [
        probes.digits_at(source, WORD, i)[0] for i in range(3)
    ]
    pair = [int(w) for w in probes.gaussian_digits(source, 130)]
    assert probes.digits_at(source, GAUSSIAN, 130)[1] == pair[0::2]
    assert probes.digits_at(source, GAUSSIAN, 130 + HALF)[1] == pair[1::2]
    word, further = probes.digits_at(source, EXPONENTIAL, 200)
    drawn = np.empty(201)
    source.fill(EXPONENTIAL, drawn)
    assert drawn[200] == pytest.approx(probes.variate(EXPONENTIAL, word, further), rel=1e-15)


def test_the_distance_from_one():
    source = Source.seeded(4)._engine
    one = np.empty(1)
    for _ in range(300):
        source.fill(UNIFORM, one)
        assert probes.complement(source) == pytest.approx(1.0 - one[0], rel=1e-12)


def test_positions_have_room_for_their_digits():
    source = Source.seeded(5)._engine
    state = bytearray(source.state())
    at = len(state) - 8
    for position, sound in (((1 << 61) - 1, True), (1 << 61, False), (LAST, False)):
        state[at:] = position.to_bytes(8, "little")
        if sound:
            source.restore(bytes(state))
            assert probes.position(source, GUMBEL) == position
        else:
            with pytest.raises(StateError):
                source.restore(bytes(state))
