"""Domains as values: construction, equality, text, JSON, pickle, membership."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

import dpoco.domains
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex, VertexSet, from_dict

RNG = np.random.default_rng(5)
EXAMPLES = [
    LpBall(1),
    LpBall(dimension=3, p=1.5, radius=0.1),
    LpBall(dimension=7, p=math.inf, radius=1e100),
    LpBall(dimension=2, p=1.0),
    Box([0.0], [1.0]),
    Box([-1.0] * 5, [0.1] * 5),
    Box(RNG.normal(size=100) - 5.0, RNG.normal(size=100) + 5.0),
    Box([0.1, -0.0], [0.1, 1 / 3]),
    Simplex(1),
    Simplex(dimension=4, scale=1 / 3),
    Polytope([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0, 1.0]),
    Polytope([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0, 1.0 + 2.0**-52]),
    VertexSet([[0.1, -0.0], [0.3, 1 / 3], [-1.0, 2.0]]),
    VertexSet(RNG.normal(size=(30, 5))),
]


@pytest.mark.parametrize("domain", EXAMPLES, ids=lambda d: type(d).__name__)
def test_text_json_and_pickle_restore_an_equal_domain(domain: Domain) -> None:
    by_text = eval(repr(domain), {"__builtins__": {"float": float}, **vars(dpoco.domains)})
    by_json = from_dict(json.loads(json.dumps(domain.to_dict(), allow_nan=False)))
    by_pickle = pickle.loads(pickle.dumps(domain))
    g = RNG.normal(size=domain.dimension)
    for other in (by_text, by_json, by_pickle, copy.deepcopy(domain), copy.copy(domain)):
        assert other == domain
        assert other.to_dict() == domain.to_dict()
        assert np.array_equal(other.minimize_linear(g), domain.minimize_linear(g))


def test_equality_is_by_type_and_every_parameter() -> None:
    for i, a in enumerate(EXAMPLES):
        for j, b in enumerate(EXAMPLES):
            assert (a == b) is (i == j)
    assert LpBall(3, 2.0, 1.0) != LpBall(3, 2.0, np.nextafter(1.0, 2.0))
    assert LpBall(3, 2.0, 1.0) != "LpBall(dimension=3, p=2.0, radius=1.0)"
    assert LpBall(3, 1.0 + 1e-13) == LpBall(3, 1)
    assert LpBall(3, 1e12) == LpBall(3, math.inf)
    assert VertexSet([[-0.0, 0.0]]) == VertexSet([[0.0, 0.0]])
    for domain in EXAMPLES:
        with pytest.raises(TypeError):
            hash(domain)


def test_long_constant_boxes_print_briefly() -> None:
    text = repr(Box(np.zeros(10_000), np.ones(10_000)))
    assert text == "Box(lower=[0.0] * 10000, upper=[1.0] * 10000)"


@pytest.mark.parametrize("domain", EXAMPLES, ids=lambda d: type(d).__name__)
def test_domains_do_not_change(domain: Domain) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        domain.dimension = 3
    with pytest.raises(AttributeError, match="immutable"):
        del domain.dimension
    names = ("center", "lower", "upper", "matrix", "bounds", "vertices")
    arrays = [getattr(domain, name) for name in names if hasattr(domain, name)]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_arrays_are_copied() -> None:
    square = np.vstack([np.eye(2), -np.eye(2)])
    for kind, *given in ((Box, np.zeros(3), np.ones(3)), (Polytope, square, np.ones(4)),
                         (VertexSet, np.eye(3))):  # fmt: skip
        domain, same = kind(*given), kind(*(array.copy() for array in given))
        for array in given:
            array[0] = 0.5
        assert domain == same
        assert np.array_equal(
            domain.minimize_linear(domain.center), same.minimize_linear(same.center)
        )


def test_geometry_and_dual_exponents() -> None:
    assert [LpBall(2, p).dual_exponent for p in (1, 1.5, 2, 3, math.inf)] == [
        math.inf, 3.0, 2.0, 1.5, 1.0,
    ]  # fmt: skip
    assert (Box([0], [1]).p, Box([0], [1]).dual_exponent) == (math.inf, 1.0)
    assert (Simplex(3).p, Simplex(3).dual_exponent) == (1.0, math.inf)


def test_centers() -> None:
    assert np.array_equal(LpBall(3, 1.5, 2.0).center, np.zeros(3))
    assert np.array_equal(Box([-1.0, 2.0], [2.0, 2.0]).center, [0.5, 2.0])
    assert np.array_equal(Simplex(4, 2.0).center, [0.5] * 4)
    assert all(domain.contains(domain.center) for domain in EXAMPLES)


def test_messages_show_no_data() -> None:
    secret = 123.4567
    for call in (
        lambda: LpBall(2).project([secret]),
        lambda: LpBall(2).minimize_linear([secret, math.nan]),
        lambda: LpBall(2).contains([secret] * 3),
        lambda: LpBall(1).project([str(secret)]),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert "123" not in str(caught.value)


def test_membership_is_relative_to_the_size() -> None:
    ball = LpBall(2, 2.0, 1e-6)
    assert ball.contains([1e-6, 0.0])
    assert ball.contains([1e-6 * (1 + 5e-10), 0.0])
    assert not ball.contains([1e-6 * (1 + 5e-9), 0.0])
    assert not ball.contains([1e-6 * (1 + 5e-16), 5e-10], tolerance=0.0)
    assert not ball.contains([math.nan, 0.0])
    assert not ball.contains([math.inf, 0.0])
    assert LpBall(3, math.inf).contains([1.0, -1.0, 1.0], tolerance=0.0)
    box = Box([0.0, 5.0], [1.0, 5.0])
    assert box.contains([1.0, 5.0], tolerance=0.0)
    assert not box.contains([1.0, 5.1])
    assert not box.contains([-0.1, 5.0])
    assert not box.contains([math.nan, 5.0])
    simplex = Simplex(3, 2.0)
    assert simplex.contains([0.0, 0.5, 1.5])
    assert not simplex.contains([0.0, 0.5, 1.4])
    assert not simplex.contains([-0.1, 0.6, 1.5])
    assert not simplex.contains([math.nan, 0.5, 1.5])


def test_integers_floats_and_strided_arrays_are_accepted() -> None:
    ball = LpBall(3)
    g = np.arange(6, dtype=np.float32)[::2]
    assert np.allclose(ball.minimize_linear(g), -g / np.linalg.norm(g))
    assert np.allclose(ball.minimize_linear([0, 3, 4]), [0, -0.6, -0.8])
    big_endian = np.array([0.0, 3.0, 4.0], dtype=">f8")
    assert np.allclose(ball.minimize_linear(big_endian), [0, -0.6, -0.8])
