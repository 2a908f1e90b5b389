"""Diameters and largest norms: upper bounds over random points, attained at known ones."""

import itertools
import math

import numpy as np
import pytest

from dpoco import _core
from dpoco.domains import Box, Domain, LpBall, Simplex

ORDERS = [1.0, 1.3, 1.5, 2.0, 3.0, 7.0, math.inf]


def corners(domain: Domain) -> np.ndarray:
    """Points that contain a maximiser of every norm over the set."""
    d = domain.dimension
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    if isinstance(domain, LpBall):
        scale = domain.radius * d ** (-1.0 / domain.p)
        return np.vstack([signs * scale, domain.radius * np.eye(d), -domain.radius * np.eye(d)])
    if isinstance(domain, Box):
        return np.where(signs > 0, domain.upper, domain.lower)
    return domain.scale * np.eye(d)


def sample(domain: Domain, rng: np.random.Generator, n: int) -> np.ndarray:
    d = domain.dimension
    if isinstance(domain, Box):
        return rng.uniform(domain.lower, domain.upper, (n, d))
    if isinstance(domain, Simplex) and d == 1:
        return np.full((n, 1), domain.scale)
    if isinstance(domain, Simplex):
        return domain.scale * rng.dirichlet(np.full(d, 0.5), n)
    x = rng.standard_t(1.5, (n, d))
    return domain.radius * x / np.linalg.norm(x, domain.p, axis=1)[:, None]


SETS = [
    *(LpBall(d, p, 1.7) for d in (1, 2, 4) for p in (1.0, 1.5, 2.0, 3.0, math.inf)),
    Box([-1.0, 0.5, 2.0], [2.0, 0.75, 2.0]),
    Box([-3.0], [1.0]),
    Simplex(1, 2.0),
    Simplex(2, 2.0),
    Simplex(4, 0.3),
]


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_diameter_and_max_norm_are_attained_and_never_exceeded(domain):
    for order in [None, *ORDERS]:
        rng = np.random.default_rng(1)
        power = domain.p if order is None else order
        vertices = corners(domain)
        gaps = (vertices[:, None, :] - vertices[None, :, :]).reshape(-1, domain.dimension)
        attained = np.linalg.norm(gaps, power, axis=1).max()
        assert domain.diameter(order) == pytest.approx(attained, rel=1e-13)
        assert domain.max_norm(order) == pytest.approx(
            np.linalg.norm(vertices, power, axis=1).max(), rel=1e-13
        )
        a, b = sample(domain, rng, 4000), sample(domain, rng, 4000)
        assert np.linalg.norm(a - b, power, axis=1).max() <= domain.diameter(order) * (1 + 1e-12)
        assert np.linalg.norm(a, power, axis=1).max() <= domain.max_norm(order) * (1 + 1e-12)


def test_known_values() -> None:
    assert LpBall(16, 2.0, 3.0).diameter() == 6.0
    assert LpBall(16, 2.0, 3.0).diameter(1) == 24.0
    assert LpBall(16, 2.0, 3.0).diameter(math.inf) == 6.0
    assert LpBall(16, math.inf, 1.0).diameter(2) == 8.0
    assert LpBall(16, 1.0, 1.0).max_norm(2) == 1.0
    assert Box([0.0] * 4, [1.0] * 4).diameter() == 1.0
    assert Box([0.0] * 4, [1.0] * 4).diameter(1) == 4.0
    assert Box([-2.0] * 4, [1.0] * 4).max_norm(2) == 4.0
    assert Simplex(9, 3.0).diameter() == 6.0
    assert Simplex(9, 3.0).diameter(2) == pytest.approx(3 * math.sqrt(2))
    assert Simplex(9, 3.0).diameter(math.inf) == Simplex(9, 3.0).max_norm(1) == 3.0


@pytest.mark.parametrize("order", [1.0, 1.000001, 1.5, 2.0, 3.0, 21.0, 1e6, math.inf])
def test_norm_agrees_with_long_double(order) -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 8, 9, 17, 300):
        for size in (1e-300, 1e-160, 1.0, 1e160, 1e300):
            x = rng.standard_t(2, n) * size
            t = np.abs(x.astype(np.longdouble))
            m = t.max()
            exact = (
                m
                if math.isinf(order)
                else m * ((t / m) ** order).sum() ** (1 / np.longdouble(order))
            )
            assert _core.norm(x, order) == pytest.approx(float(exact), rel=(n + 16) * 2.0**-52)
