"""Coins of probability exp(log_p): comparisons by as many digits as they need."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from tests.probes import probes

RNG = np.random.default_rng(12)
LAST = (1 << 64) - 1
FURTHER = 8


def words(count):
    return [int(w) for w in RNG.integers(0, 1 << 64, count, dtype=np.uint64)]


def below(word, further, log_p, exact):
    return probes.is_below_exp(word, np.array(further, dtype=np.uint64), log_p, exact)


def truth(word, further, log_p):
    with mpmath.workprec(64 * FURTHER + 200):
        digits = word
        for each in further:
            digits = (digits << 64) | each
        return digits < mpmath.exp(mpmath.mpf(log_p)) * mpmath.mpf(2) ** (64 * len(further) + 64)


@pytest.mark.parametrize("exact", [False, True])
def test_comparisons_are_those_of_all_digits(exact):
    edges = [0, 1, 77, 1 << 20, LAST, LAST - 1, LAST - (1 << 9), LAST - (1 << 30)]
    for word in edges + words(30):
        further = words(FURTHER)
        near = math.log((word + 0.5) / 2.0**64)
        if word > 1 << 63:
            near = math.log1p(-(LAST - word + 0.5) / 2.0**64)
        steps = [near * (1.0 + k * 2.0**-52) for k in (-64, -2, -1, 0, 1, 2, 64)]
        for log_p in (*steps, 0.5 * near, 2.0 * near, -1e-9, -700.0, -1e-30):
            assert below(word, further, log_p, exact) == truth(word, further, log_p)


@pytest.mark.parametrize("log_p", [-0.3, -1e-6, -3.7e-12, -40.25, -1.0])
def test_a_uniform_one_digit_beside_the_probability(log_p):
    """exp(log_p) cut after 64 + 192 digits is below it, and one unit more is not."""
    with mpmath.workprec(2000):
        digits = int(mpmath.floor(mpmath.exp(mpmath.mpf(log_p)) * mpmath.mpf(2) ** 256))
    for shift, expected in ((0, True), (1, False)):
        cut = [((digits + shift) >> (64 * (3 - i))) & LAST for i in range(4)]
        further = cut[1:] + [0] * FURTHER
        assert below(cut[0], further, log_p, exact=False) == expected
        assert below(cut[0], further, log_p, exact=True) == expected


def test_small_probabilities_of_the_other_side():
    """1 - exp(-2^-60) is 2^-60, where doubles near 1 are 2^-53 apart."""
    for word, expected in ((LAST, False), (LAST - 14, False), (LAST - 17, True), (1 << 63, True)):
        assert below(word, words(2), -(2.0**-60), exact=False) == expected


@pytest.mark.parametrize("exact", [False, True])
def test_probabilities_that_are_all_but_never_met(exact):
    for log_p in (-100.0, -400.0, -600.0):
        zeros = int(-log_p / math.log(2.0))  # and as many bits of exp(log_p)
        for first, expected in ((zeros - 2, False), (zeros + 2, True)):
            digits = 1 << (64 * 16 - first)
            cut = [(digits >> (64 * (15 - i))) & LAST for i in range(16)]
            assert below(cut[0], cut[1:], log_p, exact) == expected


def test_certain_and_impossible():
    assert below(LAST, [LAST], 0.0, exact=False)
    assert below(0, [0], 0.0, exact=True)
    assert not below(1, [0], -math.inf, exact=False)


@pytest.mark.parametrize("exact", [False, True])
def test_digits_end_in_zeros(exact):
    """The 65 words of a probability, cut, are below it: what comes behind them counts as 0."""
    for log_p in (-0.3, -1.0, -1e-6, -40.25, -2.0, -3.0, -5.0):
        with mpmath.workprec(5000):
            digits = int(mpmath.floor(mpmath.exp(mpmath.mpf(log_p)) * mpmath.mpf(2) ** (64 * 65)))
        cut = [(digits >> (64 * (64 - i))) & LAST for i in range(65)]
        assert below(cut[0], cut[1:], log_p, exact)


def test_probabilities_that_no_double_tells_from_1():
    """Ones for 1022 digits, and only then less than exp(-2^-1000)."""
    for power in (200, 1000):
        ones = [LAST] * 64
        assert not below(LAST, ones, -(2.0**-power), exact=True)
        ones[power // 64 - 1] ^= 1 << (64 - power % 64)
        assert below(LAST, ones, -(2.0**-power), exact=True)
