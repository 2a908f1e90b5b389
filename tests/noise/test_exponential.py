"""Exponential noise with both tails: laws, outermost cells, and the variates that mend them."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import ALARM, bound, distance

from dpoco import noise
from dpoco.random import Source

N = 400_000
HIGH = 32 * math.log(2.0)  # P(X > HIGH) = 2^-32
LOW = -math.log1p(-(2.0**-32))  # P(X < LOW) = 2^-32
LARGEST = 65 * math.log(2.0)  # of an exponential from 64 bits: -log 2^-65


def exact(law, n, seed=1, scale=1.0):
    out = np.empty(n)
    probes.fill_exact(Source.seeded(seed)._engine, law, scale, out)
    return out


@pytest.mark.parametrize(("law", "cdf"), [("exponential", scipy.stats.expon.cdf),
                                          ("laplace", scipy.stats.laplace.cdf)])  # fmt: skip
def test_laws(law, cdf):
    values = exact(law, N)
    assert distance(values, cdf) < bound(N)
    for wrong in (0.95, 1.05):
        assert distance(values, lambda x, s=wrong: cdf(x / s)) > bound(N)


def test_the_cube_law():
    n, vectors = 7, 20_000  # a scale 5 % off is .05 away, and twice the bound is .044
    rows = np.empty((vectors, n))
    source = Source.seeded(2)._engine
    for row in rows:
        probes.fill_exact(source, "cube", 2.0, row)
    largest = np.abs(rows).max(axis=1)

    def law(scale, shape):
        return distance(largest, lambda x: scipy.stats.gamma.cdf(x, shape, scale=scale))

    assert law(2.0, n) < bound(vectors)
    for wrong in (law(1.9, n), law(2.1, n), law(2.0, n + 1), law(2.0, n - 1)):
        assert wrong > bound(vectors)
    # Given the largest entry, the rest is uniform: any other entry over it.
    place = np.abs(rows).argmax(axis=1)
    for other in (1, 3):
        entry = rows[np.arange(vectors), (place + other) % n] / largest
        assert distance(entry, lambda x: 0.5 * (x + 1.0)) < bound(vectors)
    # A marginal law, by its definition: r u, r Gamma(n + 1), u uniform in [-1, 1].
    r = scipy.stats.gamma.ppf((np.arange(2000) + 0.5) / 2000, n + 1, scale=2.0)

    def marginal(x):
        return np.mean(np.clip(0.5 * (1 + x[:, None] / r), 0, 1), axis=1)

    at = np.linspace(-60.0, 60.0, 2001)
    shares = marginal(at)
    assert distance(rows[:, 0], lambda x: np.interp(x, at, shares)) < bound(vectors) + 1e-3


def test_regular_values_are_those_of_the_plain_sampler():
    values = exact("exponential", N, seed=3)
    assert np.array_equal(values, noise.exponential(Source.seeded(3), N))
    assert LOW < values.min() <= values.max() < HIGH  # left once in 2^31 draws


def mended(x, seed=4, n=200_000):
    """`mend` of the outer value x, many times."""
    out = np.empty(n)
    probes.fill_mended(Source.seeded(seed)._engine, x, out)
    return out


# The values of 64 bits just beyond the ends, and the last ones.
@pytest.mark.parametrize("x", [LARGEST, HIGH + 1.1e-10])
def test_the_upper_end_is_drawn_once_more(x):
    values = mended(x)
    assert values.min() > HIGH
    assert distance(values - HIGH, scipy.stats.expon.cdf) < bound(values.size)
    assert distance(values - HIGH, lambda v: scipy.stats.expon.cdf(1.05 * v)) > bound(values.size)


@pytest.mark.parametrize("x", [2.0**-65, 2.0**-32])
def test_the_lower_end_is_drawn_once_more(x):
    values = mended(x)
    assert 0.0 < values.min() <= values.max() <= LOW
    with mpmath.workdps(40):  # P(X <= t | X <= LOW) is t / LOW to relative 2^-32
        edge = mpmath.mpf(2) ** -32
        third = (1 - mpmath.e ** (-mpmath.mpf(LOW) / 3)) / edge
        assert abs(third - mpmath.mpf(1) / 3) < 2 * edge
    assert distance(values / LOW, lambda u: np.clip(u, 0.0, 1.0)) < bound(values.size)
    assert distance(values / LOW, lambda u: np.clip(u, 0.0, 1.0) ** 1.05) > bound(values.size)


@pytest.mark.parametrize("x", [HIGH - 1.1e-10, LOW + 2.0**-65, 1.0])
def test_inner_values_are_left_alone(x):
    assert np.all(mended(x, n=10) == x)


def test_the_ends_are_whole_cells():
    # The outermost inner and the innermost outer cell on either side, as 64 and as 63 bits.
    with mpmath.workdps(60):
        for bits in (64, 63):
            unit = mpmath.mpf(2) ** -bits
            edge = 2 ** (bits - 32)  # cells in an end
            for half, outer in ((edge - 0.5, True), (edge + 0.5, False)):
                upper = float(-mpmath.log(half * unit))
                lower = float(-mpmath.log(1 - half * unit))
                assert np.all((mended(upper, n=3) == upper) != outer)
                assert np.all((mended(lower, n=3) == lower) != outer)


def test_likelihood_ratios_hold_in_the_tails():
    # What mechanisms rest on: beyond any point the law is the law again, so that shifting an
    # outer value by 1 costs a factor e and no more.
    values = mended(LARGEST)
    counts = [np.sum(values > HIGH + k) for k in range(4)]
    for before, after in itertools.pairwise(counts):
        p = scipy.stats.binomtest(int(after), int(before), math.exp(-1.0)).pvalue
        assert p > ALARM
