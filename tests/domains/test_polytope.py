"""Polytopes: centre, extents, projection and linear minimisation against independent solvers."""

import json
import math
import pickle

import numpy as np
import pytest
import scipy

from dpoco.domains import Box, LpBall, Polytope, from_dict

SQUARE = ([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0, 1.0])


def random_polytope(d: int, m: int, seed: int, shift: float = 0.0) -> Polytope:
    """Half-spaces at random angles, of random lengths, within a box around (shift, .., shift)."""
    rng = np.random.default_rng(seed)
    matrix = np.vstack([rng.normal(size=(m, d)), np.eye(d), -np.eye(d)])
    matrix *= rng.uniform(0.1, 10.0, (m + 2 * d, 1))
    room = rng.uniform(0.3, 2.0, m + 2 * d) * np.linalg.norm(matrix, axis=1)
    return Polytope(matrix, matrix @ np.full(d, shift) + room)


def box_polytope(lower: np.ndarray, upper: np.ndarray) -> Polytope:
    d = len(lower)
    return Polytope(np.vstack([np.eye(d), -np.eye(d)]), np.concatenate([upper, -lower]))


def slack(domain: Polytope, x: np.ndarray) -> np.ndarray:
    return (domain.bounds - domain.matrix @ x) / np.linalg.norm(domain.matrix, axis=1)


def walk_inside(domain: Polytope, rng: np.random.Generator, n: int) -> np.ndarray:
    """Points of the set: ends of random chords, which reach its walls."""
    points = []
    x = np.array(domain.center)
    for _ in range(n):
        step = rng.normal(size=domain.dimension)
        rate = domain.matrix @ step
        room = domain.bounds - domain.matrix @ x
        forward = np.min(room[rate > 0] / rate[rate > 0])
        points.append(x + forward * step)
        x = x + rng.uniform() * forward * step
    return np.array(points)


CASES = [(1, 2), (2, 4), (3, 12), (6, 30), (15, 60), (40, 120)]


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize(("d", "m"), CASES)
def test_linear_minimisation_agrees_with_linear_programming(d, m, shift) -> None:
    domain = random_polytope(d, m, d, shift)
    rng = np.random.default_rng(100 + d)
    for _ in range(10):
        g = rng.normal(size=d)
        v = domain.minimize_linear(g)
        found = scipy.optimize.linprog(
            g, A_ub=domain.matrix, b_ub=domain.bounds, bounds=(None, None)
        )
        assert g @ v == pytest.approx(found.fun, abs=1e-9 * domain.diameter() * np.abs(g).sum())
        assert slack(domain, v).min() >= -1e-12 * (1.0 + shift) * math.sqrt(d)
        assert domain.contains(v, tolerance=1e-12)
        assert np.array_equal(domain.minimize_linear(g), v)
        assert np.array_equal(domain.minimize_linear(2.0**-900 * g), v)
        # A vertex, not merely a point of the same value.
        assert (slack(domain, v) < 1e-9 * (1.0 + shift)).sum() >= d


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize(("d", "m"), CASES)
def test_projection_satisfies_the_optimality_conditions(d, m, shift) -> None:
    domain = random_polytope(d, m, d, shift)
    rng = np.random.default_rng(200 + d)
    for size in (0.5, 2.0, 30.0, 1e4):
        x = domain.center + size * rng.normal(size=d)
        y = domain.project(x)
        assert domain.contains(y, tolerance=1e-12)
        residual = x - y
        rounding = 1e-14 * (np.linalg.norm(x) + 1.0) * domain.max_norm(2.0)
        assert residual @ (domain.minimize_linear(-residual) - y) <= rounding
        for z in walk_inside(domain, rng, 50):
            assert residual @ (z - y) <= rounding
        assert np.array_equal(domain.project(y), y)
    for z in walk_inside(domain, rng, 20):
        inner = domain.center + 0.999 * (z - domain.center)
        assert np.array_equal(domain.project(inner), inner)


def test_boxes_and_simplices_agree_with_the_sets_of_those_names() -> None:
    rng = np.random.default_rng(3)
    for d in (1, 2, 5, 11, 20):
        lower = rng.normal(size=d)
        upper = lower + rng.uniform(0.1, 3.0, d)
        box, polytope = Box(lower, upper), box_polytope(lower, upper)
        assert polytope.center == pytest.approx(box.center, rel=1e-12, abs=1e-12)
        for order in (1.0, 1.5, 2.0, 4.0, math.inf):
            assert polytope.diameter(order) == pytest.approx(box.diameter(order), rel=1e-10)
            assert polytope.diameter(order) >= box.diameter(order)
            assert polytope.max_norm(order) == pytest.approx(box.max_norm(order), rel=1e-10)
            assert polytope.max_norm(order) >= box.max_norm(order) * (1 - 1e-15)
        assert polytope.radius_from_center() == pytest.approx(box.radius_from_center(), rel=1e-10)
        for _ in range(20):
            x = box.center + 3.0 * rng.normal(size=d)
            assert polytope.project(x) == pytest.approx(box.project(x), abs=1e-13)
            assert polytope.minimize_linear(x) == pytest.approx(box.minimize_linear(x), abs=1e-13)
            for tolerance in (1e-12, 1e-3, 0.5):
                assert polytope.contains(x, tolerance) is box.contains(x, tolerance)
    # {x >= 0, sum x <= 1}: its centre is the barycentre of the corner simplex.
    for d in (2, 4, 9):
        corner = Polytope(np.vstack([-np.eye(d), np.ones((1, d))]), [0.0] * d + [1.0])
        assert corner.center == pytest.approx(np.full(d, 1.0 / (d + 1)), rel=1e-12)
        assert corner.diameter() == pytest.approx(math.sqrt(2.0), rel=2e-9)
        assert corner.max_norm(1.0) == pytest.approx(1.0, rel=2e-9)
        assert corner.diameter() >= math.sqrt(2.0)
        above = np.full(d, 1.0)
        assert corner.project(above) == pytest.approx(np.full(d, 1.0 / d), rel=1e-13)


def test_the_cross_polytope_has_degenerate_vertices() -> None:
    rng = np.random.default_rng(4)
    for d in (2, 5, 8):
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T
        domain, ball = Polytope(signs, np.ones(len(signs))), LpBall(d, 1.0)
        assert np.abs(domain.center).max() < 1e-13
        few = 1e-8 if d < 8 else 2.0  # by the bound for 256 walls the vertices would be too many
        assert domain.diameter() == pytest.approx(2.0, rel=few)
        assert domain.radius_from_center() == pytest.approx(1.0, rel=few)
        for _ in range(20):
            x = rng.normal(size=d) * 2.0
            assert domain.minimize_linear(x) == pytest.approx(ball.minimize_linear(x), abs=1e-12)
            assert domain.project(x) == pytest.approx(ball.project(x), abs=1e-12)
        # Every point of the top wall is a minimiser: ties.
        g = -np.ones(d)
        assert g @ domain.minimize_linear(g) == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.parametrize(("d", "m"), CASES[1:])
def test_the_centre_is_analytic(d, m) -> None:
    domain = random_polytope(d, m, 10 + d, 5.0)
    rows = domain.matrix / np.linalg.norm(domain.matrix, axis=1)[:, None]
    pull = 1.0 / slack(domain, domain.center)
    assert slack(domain, domain.center).min() > 0.0
    assert np.linalg.norm(pull @ rows) <= 1e-12 * pull.sum()
    height = np.log(slack(domain, domain.center)).sum()
    rng = np.random.default_rng(d)
    for z in walk_inside(domain, rng, 50):
        other = domain.center + rng.uniform(0.01, 0.9) * (z - domain.center)
        assert np.log(slack(domain, other)).sum() < height


@pytest.mark.parametrize("order", [None, 1.0, 1.5, 3.0, math.inf])
@pytest.mark.parametrize(("d", "m"), [(1, 2), (2, 4), (3, 12), (5, 10), (15, 60)])
def test_extents_are_never_exceeded(d, m, order) -> None:
    domain = random_polytope(d, m, 20 + d, 2.0)
    power = 2.0 if order is None else order
    rng = np.random.default_rng(d)
    directions = rng.normal(size=(150, d))
    vertices = np.array([domain.minimize_linear(g) for g in directions])
    points = np.vstack([vertices, walk_inside(domain, rng, 300)])
    gaps = points[:, None] - points[None]
    widest = np.linalg.norm(gaps.reshape(-1, d), power, axis=1).max()
    longest = np.linalg.norm(points, power, axis=1).max()
    assert widest <= domain.diameter(order)
    assert longest <= domain.max_norm(order)
    assert np.linalg.norm(points - domain.center, axis=1).max() <= domain.radius_from_center()
    lower, upper = domain.bounding_box
    assert (points >= lower - 1e-12).all()
    assert (points <= upper + 1e-12).all()
    for i in range(d):
        axis = np.eye(d)[i]
        assert domain.minimize_linear(axis)[i] == pytest.approx(lower[i], abs=1e-9)
        assert domain.minimize_linear(-axis)[i] == pytest.approx(upper[i], abs=1e-9)
    if d <= 3:  # few vertices: so many directions find them all
        assert domain.diameter(order) == pytest.approx(widest, rel=1e-8)
        assert domain.max_norm(order) == pytest.approx(longest, rel=1e-8)


def test_redundant_and_repeated_rows_are_allowed() -> None:
    plain = Polytope(*SQUARE)
    matrix = [*SQUARE[0], [2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]
    repeated = Polytope(matrix, [*SQUARE[1], 2.0, 7.0, 3.0])
    assert repeated.constraints == plain.constraints == 4
    assert np.array_equal(repeated.center, plain.center)
    redundant = Polytope([*SQUARE[0], [1.0, 1.0]], [*SQUARE[1], 50.0])
    assert redundant.constraints == 5
    assert redundant.center != pytest.approx(plain.center, abs=1e-6)
    assert redundant.diameter() == pytest.approx(plain.diameter(), rel=1e-8)
    # Touching in a vertex only.
    touching = Polytope([*SQUARE[0], [1.0, 1.0]], [*SQUARE[1], 2.0])
    for g in ([-1.0, -1.0], [-1.0, -0.5], [-1.0, 0.0], [1.0, 1.0]):
        least = np.dot(g, plain.minimize_linear(g))
        assert np.dot(g, touching.minimize_linear(g)) == pytest.approx(least, abs=1e-14)
    assert touching.project([2.0, 2.0]) == pytest.approx([1.0, 1.0], abs=1e-14)
    assert touching.project([1.5, 3.0]) == pytest.approx([1.0, 1.0], abs=1e-14)


@pytest.mark.parametrize("thin", [1e-3, 1e-6])
def test_nearly_flat_polytopes(thin) -> None:
    rng = np.random.default_rng(8)
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    half = np.array([1.0, 2.0, thin, 1.0])
    matrix = np.vstack([turn.T, -turn.T])
    domain = Polytope(matrix, np.concatenate([half, half]))
    assert domain.center == pytest.approx(np.zeros(4), abs=1e-12)
    assert domain.diameter() == pytest.approx(2 * np.linalg.norm(half), rel=1e-8)
    assert domain.diameter() >= 2 * np.linalg.norm(half)
    for _ in range(20):
        x = rng.normal(size=4) * 3.0
        exact = turn @ np.clip(turn.T @ x, -half, half)
        assert domain.project(x) == pytest.approx(exact, abs=1e-13)
        g = turn @ rng.choice([-1.0, 1.0], 4)
        assert domain.minimize_linear(g) == pytest.approx(-turn @ (half * (turn.T @ g)), abs=1e-13)


@pytest.mark.parametrize("size", [1e-60, 1e-7, 1e7, 1e60])
def test_any_size(size) -> None:
    unit = random_polytope(3, 8, 9)
    domain = Polytope(unit.matrix, unit.bounds * size)
    assert domain.center == pytest.approx(unit.center * size, rel=1e-9, abs=1e-12 * size)
    assert domain.diameter() == pytest.approx(unit.diameter() * size, rel=1e-8)
    x = np.array([3.0, -2.0, 1.0])
    assert domain.project(x * size) == pytest.approx(unit.project(x) * size, abs=1e-12 * size)
    assert domain.minimize_linear(x) == pytest.approx(
        unit.minimize_linear(x) * size, abs=1e-12 * size
    )


def test_any_place_and_any_redundant_bound() -> None:
    for size in (1e-2, 1e-5, 1e-7):
        domain = box_polytope(np.array([3.0, -5.0]), np.array([3.0, -5.0]) + size)
        assert domain.center == pytest.approx(np.array([3.0, -5.0]) + size / 2, abs=1e-14)
        assert domain.diameter() == pytest.approx(size * math.sqrt(2.0), rel=1e-7)
        assert domain.project([4.0, -5.0 + size / 4]) == pytest.approx(
            [3.0 + size, -5.0 + size / 4], abs=1e-14
        )
    for bound in (1e4, 1e8, 1e12):
        domain = Polytope([*SQUARE[0], [3.0, 4.0]], [*SQUARE[1], bound])
        assert domain.center == pytest.approx([0.0, 0.0], abs=10.0 / bound)
        assert domain.diameter() == pytest.approx(2.0 * math.sqrt(2.0), rel=1e-8)
        assert domain.project([1.5, 3.0]) == pytest.approx([1.0, 1.0], abs=1e-13)


def test_far_points() -> None:
    domain = Polytope(*SQUARE)
    assert domain.project([1e300, 0.5]) == pytest.approx([1.0, 0.5], abs=1.5)
    assert domain.project([1e10, 0.5]) == pytest.approx([1.0, 0.5], abs=1e-12)
    for x in ([1e300, -1e300], [1.7e308, -1.7e308], [1e16, -3e15]):
        assert domain.project(x) == pytest.approx([1.0, -1.0], abs=1e-12)
    for x in ([math.nan, 0.0], [math.inf, 0.0]):
        with pytest.raises(ValueError, match="x must be finite"):
            domain.project(x)
        assert not domain.contains(x)


EXAMPLES = [Polytope(*SQUARE), random_polytope(3, 5, 1), random_polytope(9, 30, 2, 4.0)]


@pytest.mark.parametrize("domain", EXAMPLES, ids=lambda d: str(d.dimension))
def test_text_json_and_pickle_restore_an_equal_polytope(domain: Polytope, monkeypatch) -> None:
    by_text = eval(repr(domain), {"__builtins__": {}, "Polytope": Polytope})
    text = json.dumps(domain.to_dict(), allow_nan=False)
    data = pickle.dumps(domain)

    def refuse(*_: object) -> None:
        raise AssertionError("a saved set must not be computed again")

    monkeypatch.setattr("dpoco.domains._polytope_shape.analytic_center", refuse)
    monkeypatch.setattr("dpoco._core.polytope_box", refuse)
    g = np.random.default_rng(3).normal(size=domain.dimension)
    for other in (by_text, from_dict(json.loads(text)), pickle.loads(data)):
        assert other == domain
        assert json.dumps(other.to_dict()) == text
        assert other.center.tobytes() == domain.center.tobytes()
        assert other.minimize_linear(g).tobytes() == domain.minimize_linear(g).tobytes()
        assert other.project(9 * g).tobytes() == domain.project(9 * g).tobytes()
        assert other.radius_from_center() == domain.radius_from_center()
        assert other.diameter() == domain.diameter()


def test_a_polytope_has_the_geometry_of_its_dimension() -> None:
    domain = Polytope(*SQUARE)
    assert (domain.p, domain.dual_exponent, domain.intrinsic_dimension) == (2.0, 2.0, 2)
    assert np.array_equal(domain.minimize_linear([0.0, -0.0]), domain.center)
    for corner in domain.bounding_box:
        with pytest.raises(ValueError, match="read-only"):
            corner[0] = 1.0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"center": [0.5, 0.0]}, "center"),
        ({"center": [5.0, 0.0]}, "center"),
        ({"center": [math.nan, 0.0]}, "center"),
        ({"center": [0.0]}, "center"),
        ({"lower": [0.5, -1.0]}, "lower"),
        ({"extents": [0.5, 3.0, 2.0]}, "extents"),
        ({"extents": [1.5, 0.5, 2.0]}, "extents"),
        ({"extents": [1.5, 3.0, 0.1]}, "extents"),
        ({"extents": [math.nan] * 3}, "extents"),
        ({"dimension": 3}, "dimension"),
        ({"matrix": {"float64": "?"}}, "matrix"),
        ({"more": 1}, "keys"),
    ],
)
def test_saved_polytopes_must_fit_together(change, text) -> None:
    state = {**Polytope(*SQUARE).to_dict(), **change}
    with pytest.raises(ValueError, match=text):
        from_dict(state)
