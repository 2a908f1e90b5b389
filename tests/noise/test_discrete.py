"""Discrete noise: the laws, decisions on steered digits against rational arithmetic, streams."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy
from tests.probes import probes

from dpoco import _core, noise
from dpoco.random import Source

ALARM = 1e-6
FILLER = 2**62  # digits of 1/2: decided at sight
DRAWS = {"laplace": noise.discrete_laplace, "gaussian": noise.discrete_gaussian}


def pmf(law, scale, farthest):
    n = np.arange(-farthest, farthest + 1)
    power = np.abs(n) / scale if law == "laplace" else n**2 / (2.0 * scale**2)
    mass = np.exp(-power)
    total = 1.0 / math.tanh(0.5 / scale) if law == "laplace" else mass.sum()
    return n, mass / total


def chi_square(values, law, scale):
    """p-value against the exact law; rare values are pooled on either side."""
    n, mass = pmf(law, scale, int(60 * scale) + 2)
    enough = n[mass * len(values) >= 20]
    low, high = enough.min(), enough.max()
    inside = (n >= low) & (n <= high)
    expected = np.append(mass[inside], max(1.0 - mass[inside].sum(), 1e-300)) * len(values)
    kept = values[(values >= low) & (values <= high)]
    observed = np.append(np.bincount(kept - low, minlength=high - low + 1), values.size - kept.size)
    if expected[-1] < 5:  # the tails together: too rare for chi-square, hence to be seen at all
        assert observed[-1] <= 30
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(scipy.stats.chi2.sf(statistic, max(len(expected) - 1, 1)))


def filled(law, scale, n, *, seed=1, exact=False):
    out = np.empty(n, dtype=np.int64)
    ratio = Fraction(scale)
    _core.fill_discrete(
        Source.seeded(seed)._engine, law, float(ratio.numerator), float(ratio.denominator), exact,
        out,
    )  # fmt: skip
    return out


def decided(words, law, scale, count=1, *, exact=False):
    out = np.empty(count, dtype=np.int64)
    ratio = Fraction(scale)
    tape = np.array(words, dtype=np.uint64)
    used = probes.decide_discrete(
        tape, law, float(ratio.numerator), float(ratio.denominator), exact, out
    )
    return (int(out[0]) if count == 1 else out), used


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.7, 60.0])
def test_laws(law, scale):
    values = DRAWS[law](Source.seeded(7), 400_000, scale=scale)
    assert chi_square(values, law, scale) > ALARM
    for wrong in (0.96, 1.04):
        assert chi_square(values, law, scale * wrong) < ALARM


@pytest.mark.parametrize("law", DRAWS)
def test_laws_when_every_decision_is_exact(law):
    values = filled(law, 2.5, 6_000, seed=3, exact=True)
    assert chi_square(values, law, 2.5) > ALARM
    assert chi_square(values, law, 2.0) < ALARM


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize(
    "scale", [2.0**-10, 0.4, 0.8, 1.0, 77.7, 2.0**20 - 0.5, 2.0**20, 2.0**33, 2.0**50]
)
def test_fast_decisions_are_the_exact_ones(law, scale):
    fast = filled(law, scale, 300)
    assert np.array_equal(fast, filled(law, scale, 300, exact=True))


def cut(threshold, bits):
    """Digits of a threshold in (0, 1): the first `bits`, then words of 64."""
    first = int(threshold * mpmath.mpf(2) ** bits)
    whole = int(threshold * mpmath.mpf(2) ** (bits + 128))
    return first, (whole >> 64) & (2**64 - 1), whole & (2**64 - 1)


def laplace_threshold(k, scale):
    """P(|N| >= k), k >= 1."""
    rate = mpmath.mpf(scale.denominator) / scale.numerator
    return 2 * mpmath.exp(-k * rate) / (1 + mpmath.exp(-rate))


# Decisions that only the third word of 64 digits can make.
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 10), Fraction(50), Fraction(10**5),
                                   Fraction(3) / Fraction(0.1), Fraction(1, 3)])  # fmt: skip
def test_thresholds_of_the_laplace_law(scale):
    for k in [1, 2, 5, 19]:
        with mpmath.workprec(2000):
            first, second, third = cut(laplace_threshold(k, scale), 63)
        assert 8 < third < 2**64 - 8
        for sign in (0, 1):
            for step, expected in ((-5, k), (5, k - 1)):
                words = [first | (sign << 63), second, third + step, FILLER, FILLER]
                for exact in (False, True):
                    value, used = decided(words, "laplace", scale, exact=exact)
                    assert value == (-expected if sign else expected)
                    assert used == 3


@pytest.mark.parametrize("bits", [21, 37, 50])
def test_thresholds_between_and_within_blocks(bits):
    scale = Fraction(2**bits - 1)
    block = 2 ** (bits - 1 - 9)
    width = 64 - (bits - 1 - 9)
    zeros = [0] * 6  # offset 0, which is always kept
    with mpmath.workprec(600):
        for k in (1, 700, 5000):
            first, second, third = cut(mpmath.exp(-mpmath.mpf(k * block) / scale.numerator), 63)
            for step, expected in ((-5, k), (5, k - 1)):
                value, _ = decided([first, second, third + step, *zeros], "laplace", scale)
                assert value == expected * block
        high, _ = decided([FILLER, *zeros], "laplace", scale)
        for offset in (1, block // 2, block - 1):
            first, second, third = cut(mpmath.exp(-mpmath.mpf(offset) / scale.numerator), width)
            for step, expected in ((-5, high + offset), (5, high)):
                word = (offset << width) | first
                value, _ = decided([FILLER, word, second, third + step, *zeros], "laplace", scale)
                assert value == expected


@pytest.mark.parametrize("bits", [21, 24, 37, 50])
def test_fast_decisions_take_the_words_of_exact_ones(bits):
    """Also some units of the first word beside a threshold, which the next words decide."""
    scale, shift = Fraction(2**bits - 1), bits - 1 - 9
    width = 64 - shift
    for offset in (0, 1, 2 ** (shift - 1), 2**shift - 1):
        edge = int(mpmath.exp(-mpmath.mpf(offset) / scale.numerator) * mpmath.mpf(2) ** width)
        for inner in {min(max(edge + step, 0), 2**width - 1) for step in (*range(-8, 9), -24, 24)}:
            for sign in (0, 1):
                words = [FILLER | (sign << 63), (offset << width) | inner, 3, 2**63, *[0] * 6]
                fast = decided(words, "laplace", scale)
                assert fast == decided(words, "laplace", scale, exact=True)


@pytest.mark.parametrize("exact", [False, True])
def test_one_zero_of_two_is_drawn_once_more(exact):
    scale, last = Fraction(2**30), 2**64 - 1  # a uniform next to 1: block 0, of either sign
    for words, expected in (([last, 0], None), ([last, 1 << 43], -1), ([last >> 1, 0], 0)):
        value, used = decided([*words, FILLER, 0], "laplace", scale, exact=exact)
        if expected is None:
            assert used == 4
            assert value == decided([FILLER, 0], "laplace", scale, exact=exact)[0]
        else:
            assert (value, used) == (expected, 2)


@pytest.mark.parametrize("exact", [False, True])
def test_the_farthest_value(exact):
    """Integers end at 2^62, which e^-4096 leave behind; the word after 6080 zeros tells."""
    scale = Fraction(2**50)
    for sign in (0, 1):
        for inner in (0, 2**60):
            words = [sign << 63, *[0] * 94, FILLER, inner, *[0] * 8]
            value, used = decided(words, "laplace", scale, exact=exact)
            assert value == (-(2**62) if sign else 2**62)
            assert used == 97
        words = [sign << 63, *[0] * 80, FILLER, *[0] * 8]
        value, _ = decided(words, "laplace", scale, exact=exact)
        assert abs(abs(value) / 2**50 - (63 + 80 * 64 + 2) * math.log(2.0)) < 0.01


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(50), Fraction(10**5, 7)])
def test_thresholds_of_the_gaussian_law(scale):
    check_gaussian_thresholds(scale, scale, lambda n: (abs(n) / scale - 1) ** 2 / 2)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(0.7), Fraction(0.874)])
def test_thresholds_of_the_gaussian_law_at_small_scales(scale):
    value = float(scale.numerator) / float(scale.denominator)
    proposed = Fraction(2.0 * value * value * (1.0 + 2.0**-48))
    assert 2 * scale**2 < proposed < 2 * scale**2 * (1 + Fraction(1, 2**46))
    check_gaussian_thresholds(scale, proposed, lambda n: n**2 / (2 * scale**2) - abs(n) / proposed)


def check_gaussian_thresholds(scale, proposed, exponent):
    next_value, _ = decided([FILLER], "laplace", proposed)
    checked = 0
    for quantile in (0.9, 0.5, 0.2, 0.01, 1e-4):
        word = int(quantile * 2**63)
        n, _ = decided([word], "laplace", proposed)
        y = exponent(n)
        if y == 0:  # kept for certain
            assert decided([word, 2**64 - 1], "gaussian", scale) == (n, 2)
            continue
        with mpmath.workprec(600):
            threshold = mpmath.exp(-mpmath.mpf(y.numerator) / y.denominator)
            first, second, third = cut(threshold, 64)
        for step, expected in ((-5, n), (5, next_value)):
            words = [word, first, second, third + step, FILLER, 0, 0]
            for exact in (False, True):
                assert decided(words, "gaussian", scale, exact=exact)[0] == expected
        checked += 1
    assert checked >= 2


def test_tails_that_no_double_reaches():
    # At scale 2^-10 a value other than 0 has probability 2 exp(-1024), 1476 zero digits.
    scale = Fraction(1, 1024)
    with mpmath.workprec(3000):
        whole = int(laplace_threshold(1, scale) * mpmath.mpf(2) ** (63 + 64 * 25))
    digits = [(whole >> (64 * (25 - i))) & (2**64 - 1) for i in range(26)]
    assert digits[:23] == [0] * 23
    for step, expected in ((-5, 1), (5, 0)):
        assert decided([*digits[:-1], digits[-1] + step], "laplace", scale) == (expected, 26)


@pytest.mark.parametrize("scale", [2.0**-10, 0.05, 3.0, 1e4, 2.0**20, 1e9, 2.0**50])
def test_variances(scale):
    n = 100_000
    q = math.exp(-1.0 / scale)
    within = math.expm1(-1.0 / scale)
    variance = {"laplace": 2.0 * q / within**2}
    variance["gaussian"] = (
        scale**2 if scale >= 3.0 else float(pmf("gaussian", scale, 10)[0] ** 2
                                            @ pmf("gaussian", scale, 10)[1])
    )  # fmt: skip
    for law, draw in DRAWS.items():
        values = draw(Source.seeded(5), n, scale=scale).astype(float)
        expected = variance[law]
        if expected * n < 1e-3:
            assert not values.any()
            continue
        # Fourth moments: 6 variance^2 for Laplace, 3 for Gauss; five standard errors.
        error = 5.5 * math.sqrt({"laplace": 6, "gaussian": 3}[law] / n)
        if scale >= 3.0:
            assert abs((values**2).mean() / expected - 1.0) < error
            assert abs(values.mean()) < 5.5 * math.sqrt(expected / n)
            assert abs((values**2).mean() / (1.1 * expected) - 1.0) > error
            odd = np.abs(values % 2).mean()
            assert abs(odd - 0.5) < 0.11 if scale < 10 else abs(odd - 0.5) < 5.5 * 0.5 / n**0.5


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.7, 300.0, 1e12])
def test_draws_may_be_split_at_will(law, scale):
    whole = DRAWS[law](Source.seeded(9), 2000, scale=scale)
    source = Source.seeded(9)
    parts = [DRAWS[law](source, n, scale=scale) for n in (1, 127, 128, 129, 615, 1000)]
    assert np.array_equal(whole, np.concatenate(parts))
    again = Source.from_bytes(source.to_bytes())
    assert DRAWS[law](source, scale=scale) == DRAWS[law](again, scale=scale)


def test_shapes():
    source = Source.seeded(1)
    assert isinstance(noise.discrete_laplace(source), int)
    assert noise.discrete_gaussian(source, (3, 2), scale=2).shape == (3, 2)
    out = np.empty(5, dtype=np.int64)
    assert noise.discrete_laplace(source, out=out, scale=Fraction(7, 3)) is out
