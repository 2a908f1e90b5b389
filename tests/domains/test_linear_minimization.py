"""Linear minimisation: reference vectors, optimality, extremes, ties, instruction sets."""

import math

import numpy as np
import pytest
import scipy

from dpoco import _core
from dpoco.domains import Box, LpBall, Simplex

EXPONENTS = [1.0, 1.000001, 1.01, 1.5, 2.0, 3.0, 4.0, 50.0, 1e6, math.inf]


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (1.0, [0, 1.5, 0, 0]),
        (1.5, [-3.71144e-7, 1.484575664588, -0.092785979037, 0]),
        (2.0, [-0.00072760679, 1.455213579016, -0.363803394754, 0]),
        (4.0, [-0.114779645878, 1.44613291941, -0.911006653055, 0]),
        (math.inf, [-1.5, 1.5, -1.5, 0]),
    ],
)
def test_reference_vectors(p, expected) -> None:
    v = LpBall(4, p, 1.5).minimize_linear([0.001, -2, 0.5, 0])
    assert v == pytest.approx(expected, rel=1e-6, abs=1e-12)


def dual_norm(g: np.ndarray, q: float) -> float:
    t = np.abs(g.astype(np.longdouble))
    m = t.max()
    if math.isinf(q) or m == 0:
        return float(m)
    return float(m * ((t / m) ** q).sum() ** (1 / np.longdouble(q)))


@pytest.mark.parametrize("p", EXPONENTS)
def test_value_is_minus_radius_times_dual_norm(p):
    for d in [1, 2, 5, 10, 33]:
        rng = np.random.default_rng(7)
        ball = LpBall(d, p, 1.3)
        for size in (1e-300, 1e-200, 1e-100, 1.0, 1e100, 1e200, 1e300):
            for heavy in (False, True):
                g = rng.standard_t(1.0, d) if heavy else rng.normal(size=d)
                g = np.clip(g, -1e6, 1e6) * size
                v = ball.minimize_linear(g)
                assert np.isfinite(v).all()
                assert ball.contains(v, tolerance=1e-12)
                value = float((v.astype(np.longdouble) * g).sum())
                assert value == pytest.approx(-1.3 * dual_norm(g, ball.dual_exponent), rel=1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
def test_mixed_magnitudes_and_subnormals_stay_finite(p) -> None:
    ball = LpBall(4, p, 2.0)
    for g in (
        [1e200, 1e-200, -1e-300, 0.0],
        [5e-324, -5e-324, 0.0, 5e-324],
        [1e-310, 3e-310, -1e-320, 0.0],
        [1.7e308, -1.7e308, 1.7e308, 1.7e308],
        [1.7e308, 5e-324, 0.0, 0.0],
    ):
        v = ball.minimize_linear(g)
        assert np.isfinite(v).all()
        assert ball.contains(v, tolerance=1e-12)
        scaled = np.array(g) / np.abs(g).max()
        assert v @ scaled == pytest.approx(-2.0 * dual_norm(scaled, ball.dual_exponent), rel=1e-12)


def test_polytopes_agree_with_linear_programming() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        d = int(rng.integers(1, 8))
        g = rng.normal(size=d)
        low = rng.normal(size=d)
        high = low + rng.exponential(size=d)
        cases = [
            (Box(low, high), {"bounds": list(zip(low, high, strict=True))}),
            (Simplex(d, 1.7), {"A_eq": np.ones((1, d)), "b_eq": [1.7]}),
            (LpBall(d, math.inf, 0.4), {"bounds": [(-0.4, 0.4)] * d}),
        ]
        for domain, constraints in cases:
            v = domain.minimize_linear(g)
            assert domain.contains(v)
            assert v @ g == pytest.approx(scipy.optimize.linprog(g, **constraints).fun, abs=1e-9)


def test_ties_go_to_the_lowest_index() -> None:
    assert np.array_equal(LpBall(4, 1, 2.0).minimize_linear([1, -3, 3, 3]), [0, 2, 0, 0])
    assert np.array_equal(LpBall(3, 1, 2.0).minimize_linear([5, 5, -5]), [-2, 0, 0])
    assert np.array_equal(Simplex(4).minimize_linear([1, -3, -3, 0]), [0, 1, 0, 0])
    assert np.array_equal(Simplex(3).minimize_linear([0, 0, 1]), [1, 0, 0])
    tied = np.ones(100)
    tied[[40, 70]] = -1.0
    assert np.flatnonzero(Simplex(100).minimize_linear(tied)).tolist() == [40]
    tied[[40, 70]] = 9.0
    assert np.flatnonzero(LpBall(100, 1).minimize_linear(tied)).tolist() == [40]


def test_zero_gradient_gives_the_center() -> None:
    domains = [LpBall(3, p, 2.0) for p in EXPONENTS]
    domains += [Box([0, 0, 4], [1, 2, 4]), Simplex(3, 2.0)]
    for domain in domains:
        assert np.array_equal(domain.minimize_linear(np.zeros(3)), domain.center)
        assert np.array_equal(domain.minimize_linear(-np.zeros(3)), domain.center)


def test_zero_coordinates() -> None:
    assert np.array_equal(LpBall(3, math.inf).minimize_linear([1, 0, -1]), [-1, 0, 1])
    box = Box([0, 0, 0], [1, 2, 4])
    assert np.array_equal(box.minimize_linear([1, 0, -1]), [0, 1, 4])


def test_one_dimension() -> None:
    for p in EXPONENTS:
        assert LpBall(1, p, 2.0).minimize_linear([3e-5]) == pytest.approx([-2.0], rel=1e-14)
    assert Simplex(1, 2.0).minimize_linear([5.0]) == [2.0]
    assert Box([-1], [2]).minimize_linear([-1e-300]) == [2.0]


@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_every_instruction_set_gives_the_same_bits(name) -> None:
    try:
        _core.select_instruction_set(name)
    except ValueError:
        pytest.skip(f"this machine has no {name}")
    finally:
        _core.select_instruction_set("auto")
    rng = np.random.default_rng(9)
    try:
        for d in (1, 2, 7, 8, 9, 10, 31, 64, 1000):
            g = rng.standard_t(2, d)
            domains = [LpBall(d, p, 0.7) for p in EXPONENTS]
            domains += [Simplex(d), Box(-np.ones(d), np.ones(d))]
            results = []
            for each in ("baseline", name):
                assert _core.select_instruction_set(each) == each
                results.append(
                    [domain.minimize_linear(g).tobytes() for domain in domains]
                    + [_core.norm(g, order) for order in EXPONENTS]
                    + [domain.project(3 * g).tobytes() for domain in domains]
                )
            assert results[0] == results[1]
    finally:
        _core.select_instruction_set("auto")
