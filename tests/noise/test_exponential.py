"""Exponential noise with both tails: laws, outermost cells, and the variates that mend them."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpoco import _core, noise
from dpoco.random import Source

N = 400_000
ALARM = 1e-8
LARGEST = 65 * math.log(2.0)  # of an exponential from 64 bits: -log 2^-65


def distance(values, cdf):
    u = np.sort(cdf(np.asarray(values)))
    grid = np.arange(u.size + 1) / u.size
    return float(max(np.max(grid[1:] - u), np.max(u - grid[:-1])))


def bound(n):
    return math.sqrt(math.log(2 / ALARM) / (2 * n))


def exact(law, n, seed=1, scale=1.0):
    out = np.empty(n)
    _core.fill_exact(Source.seeded(seed)._engine, law, scale, out)
    return out


@pytest.mark.parametrize(("law", "cdf"), [("exponential", stats.expon.cdf),
                                          ("laplace", stats.laplace.cdf)])  # fmt: skip
def test_laws(law, cdf):
    values = exact(law, N)
    assert distance(values, cdf) < bound(N)
    for wrong in (0.95, 1.05):
        assert distance(values, lambda x, s=wrong: cdf(x / s)) > bound(N)


def test_the_cube_law():
    n, vectors = 7, 60_000
    rows = np.empty((vectors, n))
    source = Source.seeded(2)._engine
    for row in rows:
        _core.fill_exact(source, "cube", 2.0, row)
    largest = np.abs(rows).max(axis=1)

    def law(scale, shape):
        return distance(largest, lambda x: stats.gamma.cdf(x, shape, scale=scale))

    assert law(2.0, n) < bound(vectors)
    for wrong in (law(1.9, n), law(2.1, n), law(2.0, n + 1), law(2.0, n - 1)):
        assert wrong > bound(vectors)
    # Given the largest entry, the rest is uniform: any other entry over it.
    place = np.abs(rows).argmax(axis=1)
    for other in (1, 3):
        entry = rows[np.arange(vectors), (place + other) % n] / largest
        assert distance(entry, lambda x: 0.5 * (x + 1.0)) < bound(vectors)
    # A marginal law, by its definition: r u, r Gamma(n + 1), u uniform in [-1, 1].
    r = stats.gamma.ppf((np.arange(2000) + 0.5) / 2000, n + 1, scale=2.0)

    def marginal(x):
        return np.mean(np.clip(0.5 * (1 + x[:, None] / r), 0, 1), axis=1)

    part = rows[:20_000, 0]
    assert distance(part, marginal) < bound(part.size) + 1e-3


def test_regular_values_are_those_of_the_plain_sampler():
    values = exact("exponential", N, seed=3)
    assert np.array_equal(values, noise.exponential(Source.seeded(3), N))
    assert values.max() < LARGEST  # an outermost cell is hit once in 2^64 draws


def mended(x, seed=4, n=200_000):
    """`mend` of the outermost value x, many times."""
    out = np.empty(n)
    _core.fill_mended(Source.seeded(seed)._engine, x, out)
    return out


def test_the_upper_cell_is_replaced_by_the_tail_beyond_it():
    cut = 64 * math.log(2.0)  # P(X > cut) = 2^-64, the probability of the cell
    values = mended(LARGEST)
    assert values.min() > cut
    assert distance(values - cut, stats.expon.cdf) < bound(values.size)
    assert distance(values - LARGEST, lambda x: stats.expon.cdf(np.maximum(x, 0.0))) > 0.4
    # It lies above every regular value, and is finite.
    regular = -math.log(3 * 2.0**-65)
    assert cut > regular
    assert values.max() < 2 * LARGEST


def test_the_lower_cell_is_replaced_by_values_below_it():
    # P(X <= 2^-64) = 1 - exp(-2^-64), and X given that is uniform to relative 2^-64.
    values = mended(2.0**-65)
    assert values.min() > 0.0
    assert values.max() <= 2.0**-64
    assert distance(values * 2.0**64, lambda u: np.clip(u, 0.0, 1.0)) < bound(values.size)
    with mpmath.workdps(60):
        edge = mpmath.mpf(2) ** -64
        gap = abs((1 - mpmath.e ** (-edge / 3)) / (1 - mpmath.e**-edge) - mpmath.mpf(1) / 3)
        assert gap < 2.0**-64


@pytest.mark.parametrize("x", [1e-19, 1.0, 43.9])
def test_inner_values_are_left_alone(x):
    assert np.all(mended(x, n=10) == x)


def test_likelihood_ratios_hold_in_the_tails():
    # What mechanisms rest on: beyond any point the law is the law again, so that shifting an
    # outermost value by 1 costs a factor e and no more, down to probabilities of 2^-100.
    values = mended(LARGEST)
    cut = 64 * math.log(2.0)
    counts = [np.sum(values > cut + k) for k in range(4)]
    for before, after in itertools.pairwise(counts):
        p = stats.binomtest(int(after), int(before), math.exp(-1.0)).pvalue
        assert p > ALARM
