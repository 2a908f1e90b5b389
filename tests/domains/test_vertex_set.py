"""Hulls of listed vertices: geometry, linear minimisation, projection, storage."""

import json
import math
import pickle

import numpy as np
import pytest
from scipy.optimize import linprog, nnls
from scipy.spatial.distance import pdist

import dpoco
from dpoco.domains import LpBall, Simplex, VertexSet, from_dict
from dpoco.losses import SquaredLoss

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
def test_projection_and_membership_agree_with_general_solvers(n: int, d: int) -> None:
    vertices = points(n, d)
    domain = VertexSet(vertices)
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(30):
        x = 0.7 * rng.normal(size=d)
        heavy = 1e5  # the weights' sum, as a stiff row
        rows = np.vstack([vertices.T, np.full(n, heavy)])
        weights, _ = nnls(rows, np.append(x, heavy))
        np.testing.assert_allclose(domain.project(x), weights @ vertices, atol=1e-6)
        found = linprog(
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
        assert domain.diameter(order) == pytest.approx(pdist(vertices, name).max(), rel=1e-11)
        assert domain.diameter(order) >= pdist(vertices, name).max()
        norms = np.linalg.norm(vertices, ord=order, axis=1)
        assert domain.max_norm(order) == pytest.approx(norms.max())
    assert domain.diameter(3.0) == pytest.approx(pdist(vertices, "minkowski", p=3.0).max())
    assert (domain.p, domain.dual_exponent) == (1.0, math.inf)
    assert domain.diameter() == domain.diameter(1.0)
    spread = np.linalg.norm(vertices - vertices.mean(axis=0), axis=1)
    assert domain.radius_from_center() == pytest.approx(spread.max())
    assert domain.intrinsic_dimension == 5
    assert VertexSet(np.eye(4)).intrinsic_dimension == 3
    assert VertexSet([[1.0, 2.0]]).intrinsic_dimension == 0
    assert VertexSet([[1.0, 2.0]]).diameter() == 0.0
    many = VertexSet(points(3500, 3))
    assert many.diameter(1.0) >= pdist(many.vertices, "cityblock").max()
    assert many.diameter(1.0) <= 2.0 * pdist(many.vertices, "cityblock").max()


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


def test_values_are_immutable_equal_and_stored_exactly() -> None:
    vertices = points(30, 5)
    domain = VertexSet(vertices)
    vertices[0, 0] = 7.0
    assert domain.vertices[0, 0] != 7.0
    for twin in (from_dict(json.loads(json.dumps(domain.to_dict()))),
                 pickle.loads(pickle.dumps(domain))):  # fmt: skip
        assert twin == domain
        assert np.array_equal(twin.center, domain.center)
    assert VertexSet(points(3, 2)) == eval(repr(VertexSet(points(3, 2))))
    with pytest.raises(AttributeError):
        domain.vertices = vertices  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        domain.vertices[0, 0] = 1.0
    assert VertexSet(-np.zeros((1, 2))).to_dict() == VertexSet(np.zeros((1, 2))).to_dict()
    with pytest.raises(ValueError, match="keys"):
        from_dict({"type": "VertexSet", "vertices": [[1.0]]})
    with pytest.raises(ValueError, match="dimension"):
        from_dict({"type": "VertexSet", "dimension": 2, "vertices": [[1.0]]})


@pytest.mark.parametrize(
    "vertices",
    [[], [[]], [1.0, 2.0], [[1.0, math.nan]], [[math.inf]], [[2e100]], [["a"]], [[True]], None,
     np.zeros((2, 2, 2)), [[1.0j]]],
)  # fmt: skip
def test_bad_vertices(vertices: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        VertexSet(vertices)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_other_learners_take_it() -> None:
    domain = VertexSet(points(12, 4))
    learner = dpoco.frank_wolfe.TreeFrankWolfe(
        domain, SquaredLoss(), horizon=20, budget=dpoco.Budget(1.0, 1e-5)
    )
    rng = np.random.default_rng(0)
    trace = learner.run(rng.normal(size=(20, 4)), rng.normal(size=20))
    assert all(domain.contains(theta) for theta in trace.decisions)
