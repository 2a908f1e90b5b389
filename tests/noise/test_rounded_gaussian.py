"""Gaussians rounded to integers: every value is the one that the random digits determine."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy
from tests.probes import probes

from dpoco import noise
from dpoco.random import Source

WORD, ANGLE = 1 << 64, 1 << 62
SCALES = (2.0**10, 1.37 * 2.0**28, 2.0**30)
RNG = np.random.default_rng(5)


def words(count):
    return [int(w) for w in RNG.integers(0, WORD, count, dtype=np.uint64)]


def digits(first, places, further):
    """The number whose binary digits are those of `first` and then of further words."""
    value, bits = first, places
    for word in further:
        value, bits = (value << 64) | int(word), bits + 64
    return value, bits


def exact_value(radius, angle, second, scale, further):
    """The rounded variate by independent arithmetic, from 1500 bits of each uniform."""
    with mpmath.workprec(1600):
        u, bits = digits(radius, 64, further[0::2])
        radial = mpmath.sqrt(-2 * mpmath.log((u + mpmath.mpf("0.5")) / mpmath.mpf(2) ** bits))
        v, bits = digits(angle % ANGLE, 62, further[1::2])
        turn = (v + mpmath.mpf("0.5")) / mpmath.mpf(2) ** bits
        quadrant = angle >> 62
        flat = turn < mpmath.mpf("0.5")
        near = (turn if flat else 1 - turn) * mpmath.pi / 2
        odd = (0 if flat else 1) ^ (quadrant & 1)
        part = mpmath.sin(near) if odd ^ second else mpmath.cos(near)
        negative = (quadrant if second else quadrant + 1) & 2
        size = int(mpmath.floor(mpmath.mpf(scale) * radial * part + mpmath.mpf("0.5")))
        return -size if negative else size


def rounded_on(radius, angle, second, scale, further, exact=False):
    tape = np.array(further, dtype=np.uint64)
    return probes.rounded_gaussian_on(radius, angle, second, scale, tape, exact)


@pytest.mark.parametrize("scale", SCALES)
def test_values_are_those_of_the_words(scale):
    for radius, angle in zip(words(20), words(20), strict=True):
        further = words(40)
        for second in (False, True):
            expected = exact_value(radius, angle, second, scale, further)
            assert rounded_on(radius, angle, second, scale, further) == (expected, 0)
            assert rounded_on(radius, angle, second, scale, further, exact=True)[0] == expected


@pytest.mark.parametrize("radius", [0, 1, 12345, 1 << 40, WORD - 1, WORD - 2, WORD - (1 << 30)])
def test_corners_of_the_square_of_uniforms(radius):
    for near in [0, 1, ANGLE // 2 - 1, ANGLE // 2, ANGLE - 1, ANGLE // 3]:
        further = words(40)
        start = int(min(radius.bit_length(), (WORD - 1 - radius).bit_length()) < 48)
        for quadrant in range(4):
            angle = quadrant * ANGLE + near
            for second in (False, True):
                value, used = rounded_on(radius, angle, second, SCALES[1], further)
                assert value == exact_value(radius, angle, second, SCALES[1], further)
                assert value == rounded_on(radius, angle, second, SCALES[1], further, exact=True)[0]
                assert used >= start


@pytest.mark.parametrize("far", [1, 8])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_boundaries_cut_at_the_last_of_many_digits(scale, second, far):
    """Radii just below and just above where a value turns into the next, 150 digits on.

    Doubles that estimate far and large ones err by more than 2^-20.
    """
    for angle in words(4 * far):
        further = words(40)
        turn, places = digits(angle % ANGLE, 62, further[1::2])
        with mpmath.workprec(3000):
            v = mpmath.mpf(2 * turn + 1) / mpmath.mpf(2) ** (places + 1)
            near = min(v, 1 - v) * mpmath.pi / 2
            odd = (v >= 0.5) ^ bool((angle >> 62) & 1)
            part = mpmath.sin(near) if odd ^ second else mpmath.cos(near)
            k = int(far * scale * part) + 1
            edge = mpmath.exp(-((k - mpmath.mpf("0.5")) ** 2) / (2 * (scale * part) ** 2))
            for fixed in (1, 2):
                bits = 64 * (fixed + 1)
                at = int(mpmath.floor(edge * mpmath.mpf(2) ** bits))
                found = []
                for step in (-1, 1):  # a unit of the last place that is compared, either way
                    u = at + step
                    tape = list(further)
                    for i in range(fixed):
                        tape[2 * i] = (u >> (64 * (fixed - 1 - i))) % WORD
                    value, used = rounded_on(u >> (64 * fixed), angle, second, scale, tape)
                    assert value == exact_value(u >> (64 * fixed), angle, second, scale, tape)
                    assert used >= 2 * fixed - 1
                    found.append(abs(value))
                assert found == [k, k - 1]  # a smaller uniform is a larger radius


@pytest.mark.parametrize("radius", [1, 5, 1 << 10, 1 << 30, 1 << 40, 1 << 46, WORD - 9])
def test_both_members_of_a_pair_are_one_point_of_the_plane(radius):
    """In the tail a radius is wider than the grid but for further digits: they are the pair's."""
    scale, near = 1.9 * 2.0**28, ANGLE // 2 - 1
    source = Source.seeded(31)._engine
    gaps = []
    for position in range(0, 1280, 64):
        further = probes.gaussian_digits(source, position)
        assert further.size == 128
        pair = [rounded_on(radius, near, second, scale, further)[0] for second in (False, True)]
        for second in (False, True):
            assert pair[second] == exact_value(radius, near, second, scale, further[:40])
        gaps.append(abs(abs(pair[0]) - abs(pair[1])))
    assert max(gaps) <= 1  # at 45 degrees; with digits of their own, up to 2e7 grids


def test_digits_end_somewhere():
    # All 4160 digits zero or one: no loop waits for others.
    for radius, fill in ((0, 0), (WORD - 1, WORD - 1)):
        for second in (False, True):
            value, used = rounded_on(radius, 12345, second, SCALES[0], [fill] * 128)
            assert abs(value) <= 77 * SCALES[0]
            assert used == 127


def test_further_digits_belong_to_the_pair_and_to_nothing_else():
    source = Source.seeded(31)._engine
    seen = {probes.gaussian_digits(source, i).tobytes() for i in (0, 1, 63, 128, 129, 4096)}
    assert len(seen) == 6
    for i in (0, 63, 128):
        found = probes.gaussian_digits(source, i)
        assert np.array_equal(found, probes.gaussian_digits(source, i + 64))
    assert len(np.unique(np.frombuffer(b"".join(seen), dtype=np.uint64))) == 6 * 128
    other = probes.gaussian_digits(Source.seeded(32)._engine, 0)
    assert not np.array_equal(other, probes.gaussian_digits(source, 0))


def test_pairs_drawn_in_the_tail_are_points_of_the_plane():
    # Wherever a kernel leaves a pair open, both members follow from the pair's own digits.
    scale, count, seed = 2.0**30, 128 * 20_000, 12
    plain = noise.gaussian(Source.seeded(seed), count, scale=1.0).reshape(-1, 2, 64)
    out = drawn(scale, count, seed=seed).reshape(-1, 2, 64)
    blocks, lanes = np.nonzero((plain**2).sum(axis=1) > 26.0)
    assert blocks.size > 1
    for block, lane in zip(blocks[:6], lanes[:6], strict=True):
        position = 128 * int(block) + int(lane)
        source = Source.seeded(seed)._engine
        words_of = probes.gaussian_words(source, position)
        further = probes.gaussian_digits(source, position)
        for second in (False, True):
            expected = exact_value(*words_of, second, scale, further[:40])
            assert int(out[block, int(second), lane]) == expected


def drawn(scale, count, seed=1, split=None):
    source, out = Source.seeded(seed), np.empty(count)
    at = 0
    for step in split or [count]:
        part = np.empty(step)
        probes.fill_rounded_gaussian(source._engine, scale, part)
        out[at : at + step] = part
        at += step
    return out


def test_draws_are_the_plain_ones_rounded_and_may_be_split():
    scale, count = 1.9 * 2.0**28, 300_000
    plain = noise.gaussian(Source.seeded(1), count, scale=1.0) * scale
    rounded = drawn(scale, count)
    assert np.array_equal(rounded, np.rint(rounded))
    assert np.abs(rounded - plain).max() <= 0.5 + 2.0**-10
    assert np.mean(rounded == np.rint(plain)) > 0.999
    pieces = [1, 2, 61, 64, 65, 127, 128, 129, 1000]
    pieces.append(count - sum(pieces))
    assert np.array_equal(rounded, drawn(scale, count, split=pieces))


def test_the_slow_path_is_taken_and_agrees():
    # At the largest scale some of these are left open by double arithmetic.
    scale, count = 2.0**30, 4_000_000
    source = Source.seeded(9)
    out = np.empty(count)
    probes.fill_rounded_gaussian(source._engine, scale, out)
    plain = noise.gaussian(Source.seeded(9), count, scale=1.0)
    v = plain * scale
    near = np.abs(np.abs(v - np.floor(v)) - 0.5) < np.abs(v) * 2.0**-48 * 0.99
    outer = plain.reshape(-1, 2, 64)
    outer = np.repeat((outer**2).sum(axis=1, keepdims=True) > 26.0, 2, axis=1).ravel()
    assert near.sum() > 12
    assert outer.sum() > 1
    assert np.all(np.isfinite(out))
    checked = 0
    for i in [*np.flatnonzero(near)[:15], *np.flatnonzero(outer)[:15]]:
        at = int(i) % 128
        pair = probes.gaussian_words(Source.seeded(9)._engine, int(i) - at + at % 64)
        ends = {exact_value(*pair, at >= 64, scale, [fill] * 20) for fill in (0, WORD - 1)}
        if len(ends) == 1:  # else the digits of the words leave it open
            assert ends == {int(out[i])}
            checked += 1
    assert checked > 15


def test_law_of_small_scales_and_a_wrong_scale():
    scale = 2.0**10
    values = drawn(scale, 1_000_000, seed=3)
    edges = np.array([-np.inf, *(np.arange(-2.5, 2.6, 0.125) * scale // 1 + 0.5), np.inf])
    found = np.histogram(values, edges)[0]

    def p_value(s):
        expected = np.diff(scipy.stats.norm.cdf(edges, scale=s)) * values.size
        return scipy.stats.chisquare(found, expected).pvalue

    assert p_value(scale) > 1e-6
    assert p_value(1.01 * scale) < 1e-6
    assert 1 / 1.006 < values.var() / (scale**2 + 1 / 12) < 1.006


def test_the_bounds_that_fast_decisions_rest_on():
    """Relative errors of plain variates stay below a third of the kernel's margin 2^-48."""
    worst = 0.0
    plain = noise.gaussian(Source.seeded(4), 128 * 40, scale=1.0)
    for block in range(40):
        for i in (0, 17, 63):
            pair = probes.gaussian_words(Source.seeded(4)._engine, 128 * block + i)
            for second in (0, 1):
                with mpmath.workprec(200):
                    u = (pair[0] + mpmath.mpf("0.5")) / 2**64
                    turn = (pair[1] % ANGLE + mpmath.mpf("0.5")) / 2**62
                    full = ((pair[1] >> 62) + turn) * mpmath.pi / 2
                    part = mpmath.sin(full) if second else mpmath.cos(full)
                    exact = mpmath.sqrt(-2 * mpmath.log(u)) * part
                    got = plain[128 * block + i + 64 * second]
                    worst = max(worst, abs(float((mpmath.mpf(got) - exact) / exact)))
    assert 0.0 < worst < 2.0**-48 / 3.0


@pytest.mark.parametrize("scale", [2.0**9, 2.0**31, 0.0, -1.0, math.nan])
def test_scales_without_a_proof_are_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        probes.fill_rounded_gaussian(Source.seeded(1)._engine, scale, np.empty(1))
