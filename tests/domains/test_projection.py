"""Euclidean projection: variational inequality, bisection, idempotence, extremes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco import _core
from dpoco.domains import Box, LpBall, Simplex

EXPONENTS = [1.0, 1.01, 1.2, 1.5, 2.0, 2.5, 4.0, 30.0, 1e4, math.inf]


def check_projection(domain, x: np.ndarray) -> np.ndarray:
    """Check that <x - y, z - y> <= 0 for all z of the set, up to rounding of x and y."""
    y = domain.project(x)
    assert domain.contains(y, tolerance=1e-12)
    residual = x - y
    z = domain.minimize_linear(-residual)
    rounding = 2e-15 * np.linalg.norm(x) * domain.max_norm(2.0)
    assert residual @ (z - y) <= rounding
    again = domain.project(y)
    assert np.abs(again - y).max() <= 1e-14 * np.abs(y).max()
    return y


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_ball_projection_is_optimal(p, d) -> None:
    rng = np.random.default_rng(11)
    ball = LpBall(d, p, 0.8)
    for size in (1.0000001, 1.01, 1.5, 5.0, 100.0):
        for heavy in (False, True):
            x = rng.standard_t(1.5, d) if heavy else rng.normal(size=d)
            x *= 0.8 * size / _core.norm(x, p)
            y = check_projection(ball, x)
            assert _core.norm(y, p) == pytest.approx(0.8, rel=1e-12)
            assert (np.sign(y) * np.sign(x) >= 0).all()


@pytest.mark.parametrize("p", EXPONENTS)
def test_points_inside_do_not_move(p) -> None:
    rng = np.random.default_rng(12)
    ball = LpBall(5, p, 2.0)
    for _ in range(20):
        x = rng.normal(size=5)
        x *= 2.0 * rng.uniform() * (1 - 1e-12) / _core.norm(x, p)
        assert np.array_equal(ball.project(x), x)


def test_l1_and_simplex_against_bisection() -> None:
    rng = np.random.default_rng(14)
    for _ in range(200):
        d = int(rng.integers(1, 12))
        x = rng.standard_t(2, d) * 3
        low, high = x.min() - 2.0, x.max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(x - middle, 0).sum() > 1.5 else (low, middle)
        assert Simplex(d, 1.5).project(x) == pytest.approx(np.maximum(x - low, 0), abs=1e-12)
        check_projection(Simplex(d, 1.5), x)
        if np.abs(x).sum() > 1.5:
            expected = np.sign(x) * Simplex(d, 1.5).project(np.abs(x))
            assert LpBall(d, 1, 1.5).project(x) == pytest.approx(expected, abs=1e-12)


def test_box_projection() -> None:
    box = Box([0, -1, 2], [1, 1, 2])
    assert np.array_equal(box.project([-5, 0.3, 9]), [0, 0.3, 2])


@pytest.mark.parametrize("p", EXPONENTS)
def test_far_and_tiny_points(p) -> None:
    ball = LpBall(3, p, 1.0)
    for x in ([1e300, 0, 0], [1.7e308, -1.7e308, 1.7e308], [1e200, 1e-200, 0]):
        y = ball.project(x)
        assert np.isfinite(y).all()
        assert _core.norm(y, p) == pytest.approx(1.0, rel=1e-12)
    assert np.array_equal(ball.project([1e300, 0, 0]), [1, 0, 0])
    symmetric = ball.project([1.7e308, -1.7e308, 1.7e308])
    assert symmetric == pytest.approx(np.array([1, -1, 1]) * 3 ** (-1 / p), rel=1e-12)
    tiny = [5e-324, -1e-310, 0.0]
    assert np.array_equal(ball.project(tiny), tiny)
    assert np.array_equal(Simplex(3).project([-1e300, 1e300, 0]), [0, 1, 0])
    assert Simplex(3).project([1e300] * 3) == pytest.approx([1 / 3] * 3)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(
    st.sampled_from(EXPONENTS),
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
    st.floats(1e-2, 1e2),
)
def test_projection_never_moves_points_apart(p, x, radius) -> None:
    ball = LpBall(len(x), p, radius)
    a = np.array(x)
    b = np.roll(a, 1) * 0.7
    moved = np.linalg.norm(ball.project(a) - ball.project(b))
    assert moved <= np.linalg.norm(a - b) + 1e-12 * (np.abs(a).max() + radius)
