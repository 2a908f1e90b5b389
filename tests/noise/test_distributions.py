"""Laws of the samplers: distribution-free bounds with false-alarm probability below 1e-6.

Each test also checks that a scale wrong by 5 % is rejected.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.samples import ALARM, bound, distance

import dpoco
from dpoco import noise
from dpoco.random import Source

N = 400_000


LAWS = {
    "gaussian": scipy.stats.norm.cdf,
    "laplace": scipy.stats.laplace.cdf,
    "exponential": scipy.stats.expon.cdf,
    "gumbel": scipy.stats.gumbel_r.cdf,
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1.0, 0.01, 300.0])
def test_law(law, scale):
    values = getattr(noise, law)(Source.seeded(21), N, scale=scale)
    cdf = LAWS[law]
    assert distance(values, lambda x: cdf(x / scale)) < bound(N)
    assert distance(values, lambda x: cdf(x / (1.05 * scale))) > bound(N)
    assert distance(values, lambda x: cdf(x / (0.95 * scale))) > bound(N)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_symmetric_laws_have_fair_independent_signs(law):
    values = getattr(noise, law)(Source.seeded(22), N)
    slack = 6 / np.sqrt(N)
    signs = np.sign(values)
    assert abs(signs.mean()) < slack
    for lag in (1, 2, 63, 64, 65, 128):  # 64: the two halves of a Box-Muller pair
        assert abs(np.mean(signs[lag:] * signs[:-lag])) < slack
        magnitude = np.abs(values) - np.abs(values).mean()
        assert abs(np.mean(magnitude[lag:] * magnitude[:-lag])) < slack * magnitude.var() * 2


@pytest.mark.parametrize(
    ("law", "threshold", "tail"),
    [
        ("gaussian", 4.0, 2 * scipy.stats.norm.sf(4.0)),
        ("gaussian", 4.6, 2 * scipy.stats.norm.sf(4.6)),
        ("laplace", 11.0, np.exp(-11.0)),
        ("exponential", 11.0, np.exp(-11.0)),
        ("gumbel", 11.0, scipy.stats.gumbel_r.sf(11.0)),
    ],
)
def test_tails(law, threshold, tail):
    n = 4_000_000
    count = int(np.sum(np.abs(getattr(noise, law)(Source.seeded(23), n)) > threshold))
    low, high = scipy.stats.binom.ppf([ALARM, 1 - ALARM], n, tail)
    assert low <= count <= high
    assert high < n * tail * 10  # and a tail ten times too heavy would be seen


def test_exponential_is_precise_near_zero():
    # 1 - exp(-x) must be uniform also on [0, 1e-3], where a 53-bit grid would show.
    values = noise.exponential(Source.seeded(24), 4_000_000)
    small = values[values < 1e-3]
    assert distance(small, lambda x: np.expm1(-x) / np.expm1(-1e-3)) < bound(small.size)
    assert np.unique(small).size == small.size


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 1.5, 2.5, 10.0, 1000.0])
def test_gamma(shape):
    n = 100_000
    values = noise.gamma(Source.seeded(25), shape, n, scale=2.0)
    assert distance(values, scipy.stats.gamma(shape, scale=2.0).cdf) < bound(n)
    wrong = 1.2 if shape < 1 else 1 + 0.1 / np.sqrt(shape)
    assert distance(values, scipy.stats.gamma(shape, scale=2.0 * wrong).cdf) > bound(n)


ORDERS = [1.0, 1.3, 2.0, 2.5, 3.0, 6.0, 50.0, np.inf]


@pytest.mark.parametrize("shape", [0.3, 1.0, 1.5, 40.0])
def test_gammas_are_the_same_however_they_are_drawn(shape):
    whole, single = Source.seeded(26), Source.seeded(26)
    values = noise.gamma(whole, shape, 1000)
    assert values.tolist() == [noise.gamma(single, shape) for _ in range(1000)]
    assert whole.to_bytes() == single.to_bytes()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dimension", [2, 5, 70])
def test_generalized_gaussian_radius_and_direction(order, dimension):
    n = 40_000
    z = noise.generalized_gaussian(Source.seeded(26), dimension, order, n, scale=3.0)
    radius = np.linalg.norm(z, ord=order, axis=1)
    law = scipy.stats.gamma(dimension / 2)
    assert distance(radius**2 / (2 * 9.0), law.cdf) < bound(n)
    # The printed radius law Gamma(d/2, 2 sigma) must be rejected.
    assert distance(radius**2 / (2 * 3.0), law.cdf) > bound(n)
    ratio = np.abs(z[:, 0]) / radius
    if np.isinf(order):
        # On the cube's surface a given coordinate is the face with probability 1/d, else uniform.
        inside = ratio < 1
        assert abs(inside.mean() - (1 - 1 / dimension)) < 6 / np.sqrt(n)
        assert distance(ratio[inside], lambda x: np.clip(x, 0, 1)) < bound(int(inside.sum()))
    else:
        # Below one half only: for large orders values next to 1 round to 1.
        share = ratio**order
        for offset, fits in ((0.0, True), (1.5, False)):
            beta = scipy.stats.beta(1 / (order + offset), (dimension - 1) / (order + offset))
            half = float(beta.cdf(0.5))
            below = share[share < 0.5]
            agrees = (
                distance(below, lambda x, b=beta, h=half: b.cdf(x) / h) < bound(below.size)
                and abs(below.size - n * half) < 6 * np.sqrt(n * half * (1 - half)) + 1
            )
            if fits or (dimension < 70 and order < 10):
                assert agrees == fits
    # Direction and radius are independent, signs are fair.
    slack = 6 / np.sqrt(n)
    assert abs(np.corrcoef(ratio, radius)[0, 1]) < slack
    assert np.all(np.abs(np.sign(z).mean(axis=0)) < slack)
    if dimension > 1:
        assert abs(np.mean(np.sign(z[:, 0] * z[:, 1]))) < slack


@pytest.mark.parametrize("order", ORDERS)
def test_generalized_gaussian_in_one_dimension_is_gaussian(order):
    n = 60_000
    z = noise.generalized_gaussian(Source.seeded(27), 1, order, n, scale=0.5)[:, 0]
    assert distance(z, scipy.stats.norm(scale=0.5).cdf) < bound(n)
    assert distance(z, scipy.stats.norm(scale=0.55).cdf) > bound(n)


@pytest.mark.parametrize("order", [1.0, 2.5, 4.0, np.inf])
def test_coordinate_variance_matches_the_accounting(order):
    from dpoco.accounting.gaussian import coordinate_variance

    n, d = 100_000, 4
    z = noise.generalized_gaussian(Source.seeded(28), d, order, n, scale=2.0)
    want = 4.0 * coordinate_variance(order, d)
    slack = 7 * np.sqrt(np.var(z**2) / n)
    assert np.all(np.abs((z**2).mean(axis=0) - want) < slack)
    assert slack < 0.05 * want


def test_shapes_scalars_and_out():
    source = Source.seeded(0)
    assert isinstance(noise.gaussian(source), float)
    assert noise.laplace(source, 3).shape == (3,)
    assert noise.gumbel(source, (2, 3)).shape == (2, 3)
    assert noise.gaussian(source, 0).shape == (0,)
    out = np.zeros((4, 2))
    assert noise.exponential(source, out=out) is out
    assert np.all(out > 0)
    assert noise.generalized_gaussian(source, 5, 3.0).shape == (5,)
    assert noise.generalized_gaussian(source, 5, 3.0, 2).shape == (2, 5)


def test_truncation_constant_is_the_samplers_reach():
    # The farthest values the transforms can give, from the smallest 64-bit (63-bit for Laplace)
    # uniform; the mass beyond must be below the constant that accounting charges per variate.
    half_word = 0.5 * 2.0**-64
    assert half_word <= noise.TAIL_MASS_PER_VARIATE  # exponential; Box-Muller radius
    assert noise.TAIL_MASS_PER_VARIATE >= 2 * 0.5 * 0.5 * 2.0**-63  # Laplace, both sides
    longest = -np.log(half_word)
    assert scipy.special.gammaincc(1.0, longest) == pytest.approx(half_word, rel=1e-9)
    upper = -np.expm1(-half_word)  # P(Gumbel > -log(half_word)), about half_word
    assert upper <= noise.TAIL_MASS_PER_VARIATE
    assert dpoco.noise.TAIL_MASS_PER_VARIATE == 2.0**-64
