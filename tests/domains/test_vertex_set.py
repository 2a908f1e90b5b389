"""Hulls of listed vertices: geometry, linear minimisation, projection, storage."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import scipy

from dpoco.domains import LpBall, Simplex, VertexSet

CASES = [(1, 1), (2, 1), (1, 3), (5, 2), (4, 3), (40, 6), (30, 40), (500, 10)]


def points(n: int, d: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(100 * n + d).normal(size=(n, d)) + shift


@pytest.mark.parametrize(("n", "d"), CASES)
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_linear_minimisation(n: int, d: int, shift: float) -> None:
    vertices = points(n, d, shift)
    domain = VertexSet(vertices)
    rng = np.random.default_rng(1)
    for _ in range(10):
        g = rng.normal(size=d)
        v = domain.minimize_linear(g)
        assert np.array_equal(v, vertices[np.argmin(vertices @ g)])
        assert domain.contains(v, tolerance=1e-12)
    assert np.array_equal(domain.minimize_linear(np.zeros(d)), domain.center)
    np.testing.assert_allclose(domain.center, vertices.mean(axis=0), rtol=1e-12)
    twice = VertexSet(np.vstack([vertices, vertices]))
    assert np.array_equal(twice.minimize_linear(g), v)


@pytest.mark.parametrize(("n", "d"), CASES)
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_projection_satisfies_the_optimality_conditions(n: int, d: int, shift: float) -> None:
    vertices = points(n, d, shift)
    domain = VertexSet(vertices)
    rng = np.random.default_rng(2)
    for size in (0.1, 1.0, 10.0, 1e4):
        x = domain.center + size * rng.normal(size=d)
        y = domain.project(x)
        residual = x - y
        rounding = 1e-13 * (np.linalg.norm(x) + 1.0) * domain.max_norm(2.0)
        assert (vertices @ residual).max() - y @ residual <= rounding
        assert domain.contains(y, tolerance=1e-12)
        np.testing.assert_allclose(domain.project(y), y, atol=1e-12 * (1.0 + shift))
    for _ in range(10):
        inner = rng.dirichlet(np.ones(n)) @ vertices
        assert domain.contains(inner)
        np.testing.assert_allclose(domain.project(inner), inner, atol=1e-12 * (1.0 + shift))


@pytest.mark.parametrize(("n", "d"), [(6, 2), (10, 4), (20, 8)])
def test_membership_agrees_with_linear_programming(n: int, d: int) -> None:
    vertices = points(n, d)
    domain = VertexSet(vertices)
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(30):
        x = 0.7 * rng.normal(size=d)
        found = scipy.optimize.linprog(
            np.zeros(n), A_eq=np.vstack([vertices.T, np.ones(n)]), b_eq=np.append(x, 1.0)
        )
        assert domain.contains(x) == found.success
        seen.add(found.success)
        assert not domain.contains(np.full(d, np.nan))
    assert seen == {True, False} or d > 2


def test_geometry() -> None:
    vertices = points(60, 5)
    domain = VertexSet(vertices)
    for order, name in ((1.0, "cityblock"), (2.0, "euclidean"), (math.inf, "chebyshev")):
        assert domain.diameter(order) == pytest.approx(
            scipy.spatial.distance.pdist(vertices, name).max(), rel=1e-11
        )
        assert domain.diameter(order) >= scipy.spatial.distance.pdist(vertices, name).max()
        norms = np.linalg.norm(vertices, ord=order, axis=1)
        assert domain.max_norm(order) == pytest.approx(norms.max())
    assert domain.diameter(3.0) == pytest.approx(
        scipy.spatial.distance.pdist(vertices, "minkowski", p=3.0).max()
    )
    assert (domain.p, domain.dual_exponent) == (1.0, math.inf)
    assert domain.diameter() == domain.diameter(1.0)
    spread = np.linalg.norm(vertices - vertices.mean(axis=0), axis=1)
    assert domain.radius_from_center() == pytest.approx(spread.max())
    assert domain.intrinsic_dimension == 5
    assert VertexSet(np.eye(4)).intrinsic_dimension == 3
    assert VertexSet([[1.0, 2.0]]).intrinsic_dimension == 0
    assert VertexSet([[1.0, 2.0]]).diameter() == 0.0
    many = VertexSet(points(3500, 3))
    assert many.diameter(1.0) >= scipy.spatial.distance.pdist(many.vertices, "cityblock").max()
    assert (
        many.diameter(1.0) <= 2.0 * scipy.spatial.distance.pdist(many.vertices, "cityblock").max()
    )


def test_it_is_the_set_it_describes() -> None:
    rng = np.random.default_rng(4)
    for domain, twin in (
        (Simplex(4, 2.0), VertexSet(2.0 * np.eye(4))),
        (LpBall(3, 1.0, 0.5), VertexSet(0.5 * np.vstack([np.eye(3), -np.eye(3)]))),
    ):
        assert twin.diameter() == pytest.approx(domain.diameter())
        for _ in range(20):
            x = rng.normal(size=domain.dimension)
            np.testing.assert_allclose(twin.project(x), domain.project(x), atol=1e-12)
            assert np.array_equal(twin.minimize_linear(x), domain.minimize_linear(x))


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e100])
def test_sizes_far_from_one(scale: float) -> None:
    domain = VertexSet(scale * points(7, 3) / 4.0)
    x = scale * np.array([0.3, -0.2, 2.0])
    np.testing.assert_allclose(domain.project(x) / scale, VertexSet(points(7, 3) / 4.0).project(
        x / scale), atol=1e-12)  # fmt: skip
    assert domain.contains(domain.center)
    assert not domain.contains(x)


def exact_projection(rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Nearest point of a hull, in rational numbers, by going through all its faces."""
    points = [[Fraction(v) - Fraction(t) for v, t in zip(row, x, strict=True)] for row in rows]

    def inner(a: list[Fraction], b: list[Fraction]) -> Fraction:
        return sum((s * t for s, t in zip(a, b, strict=True)), Fraction(0))

    d = len(x)
    for size in range(1, d + 2):
        for face in combinations(range(len(points)), size):
            edges = [[a - b for a, b in zip(points[i], points[face[0]], strict=True)]
                     for i in face[1:]]  # fmt: skip
            system = [[inner(a, b) for b in edges] + [-inner(a, points[face[0]])] for a in edges]
            weights = solve(system)
            if weights is None:
                continue
            weights = [1 - sum(weights), *weights]
            if min(weights) < 0:
                continue
            y = [sum(w * points[i][j] for w, i in zip(weights, face, strict=True))
                 for j in range(d)]  # fmt: skip
            if all(inner(p, y) >= inner(y, y) for p in points):
                return np.array([float(y[j] + Fraction(x[j])) for j in range(d)])
    raise AssertionError("a hull has a nearest point")


def solve(system: list[list[Fraction]]) -> list[Fraction] | None:
    rows = [list(row) for row in system]
    n = len(rows)
    for k in range(n):
        at = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if at is None:
            return None
        rows[k], rows[at] = rows[at], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def test_columns_of_any_scale_are_projected_to_rounding() -> None:
    rng = np.random.default_rng(8)
    for trial in range(12):
        scales = 10.0 ** rng.permutation([-6.0, 0.0, 6.0])
        rows = rng.normal(size=(6, 3)) * scales
        x = rng.normal(size=3) * scales * (0.5 if trial % 2 else 3.0)
        exact = exact_projection(rows, x)
        assert (np.abs(VertexSet(rows).project(x) - exact) <= 1e-12 * scales).all()


@pytest.mark.parametrize(("n", "d"), [(20, 5), (8, 8), (40, 6), (6, 12), (200, 10)])
def test_inner_points_are_kept_in_columns_of_any_scale(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        scales = 10.0 ** rng.uniform(-6.0, 6.0, size=d)
        rows = (rng.normal(size=(n, d)) + rng.normal(size=d)) * scales
        domain = VertexSet(rows)
        inner = rng.dirichlet(np.ones(n)) @ rows
        assert (np.abs(domain.project(inner) - inner) <= 1e-12 * scales).all()
        outer = domain.project(inner + rng.normal(size=d) * scales)
        assert (np.abs(domain.project(outer) - outer) <= 1e-12 * scales).all()


def test_a_box_of_any_scales_is_clipped_to() -> None:
    rng = np.random.default_rng(9)
    corners = np.array(list(product([-1.0, 1.0], repeat=5)))
    scales = 10.0 ** np.array([-6.0, -3.0, 0.0, 3.0, 6.0])
    domain = VertexSet(corners * scales)
    for _ in range(40):
        x = 2.0 * rng.normal(size=5) * scales
        y = domain.project(x)
        assert (np.abs(y - np.clip(x, -scales, scales)) <= 1e-12 * scales).all()


@pytest.mark.parametrize("exponent", [-100, -160, -215, -250, -300, -305, 0, 99])
def test_projections_keep_their_accuracy_at_every_scale(exponent: int) -> None:
    unit = 10.0**exponent
    pair = VertexSet(np.array([[unit], [3.0 * unit]]))
    assert pair.project([2.2 * unit])[0] / unit == pytest.approx(2.2, rel=1e-12)
    assert pair.contains([2.2 * unit])
    corners = unit * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(
        VertexSet(corners).project([0.9 * unit, 0.5 * unit]) / unit, [0.7, 0.3], rtol=1e-12
    )
