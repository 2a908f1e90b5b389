"""The bound on a round's leaf scalar: never exceeded by a search, and nearly attained by it."""

import itertools
import math

import numpy as np
import pytest

from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss

LOSSES = [
    SquaredLoss(label_bound=0.3, feature_bound=1.0),
    SquaredLoss(label_bound=2.0, weight=0.5, feature_bound=1.0),
    LogisticLoss(1.0),
    HuberLoss(label_bound=0.3, threshold=0.2, feature_bound=1.0),
    HuberLoss(label_bound=1.0, threshold=1.0, feature_bound=1.0),
    HuberLoss(label_bound=5.0, threshold=0.4, feature_bound=1.0),
    HuberLoss(label_bound=0.5, threshold=10.0, feature_bound=1.0),
]
ROUNDS = np.array([1, 2, 3, 4, 5, 7, 10, 30, 100, 1000, 100_000, 10_000_000])


def search(loss, a: float, s: float) -> float:
    """Largest |leaf scalar| over a grid of rounds, margins, vertices and labels."""
    low, high = loss.label_range
    z = np.unique(np.concatenate([np.linspace(-a, a, 241), [0.0]]))
    # Labels and margins just inside the quadratic part of Huber's loss, where the supremum hides.
    t = getattr(loss, "threshold", 1.0)
    corner = np.array([low, high, -a - t, a + t]) * (1 - 1e-4)
    y = np.concatenate([np.linspace(low, high, 21), np.clip(corner, low, high)])
    edge = np.clip(np.add.outer(y, [-t, t]).ravel() * (1 - 1e-6), -a, a)
    z = np.concatenate([z, edge])
    k, z, v, y = (grid.ravel() for grid in np.meshgrid(ROUNDS, z, [-a, a], y))
    h = s / (k - 1 + s)
    now = np.where(k == 1, z, z + h * (v - z))
    engine = loss._glm_engine
    leaf = k * engine.derivatives(now, y) - (k - 1) * engine.derivatives(z, y)
    return float(np.abs(leaf).max())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_round_exceeds_the_bound(loss):
    for a, s in itertools.product([0.1, 0.5, 1.0, 2.0, 10.0], [0.3, 1.0, 1.5, 4.0]):
        bound = loss.leaf_scalar_bound(a, s)
        # k l' with k = 1e7 loses 7 digits.
        assert search(loss, a, s) <= bound * (1 + 1e-7)


@pytest.mark.parametrize("a", [0.1, 0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_bound_is_nearly_attained(loss, a) -> None:
    """A bound smaller by 0.2 % would be wrong."""
    assert search(loss, a, 1.0) >= 0.998 * loss.leaf_scalar_bound(a)


@pytest.mark.parametrize("s", [1.5, 4.0])
def test_the_bound_for_larger_steps_is_attained_by_the_squared_loss(s) -> None:
    loss = SquaredLoss(label_bound=0.3, feature_bound=1.0)
    assert search(loss, 1.0, s) >= 0.998 * loss.leaf_scalar_bound(1.0, s)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_random_trajectories_stay_within_the_bound(loss) -> None:
    """Whole runs of the algorithm in d dimensions, with clipped records."""
    rng = np.random.default_rng(31)
    for domain in (LpBall(4, 1.5, 1.3), LpBall(3, 1), Box([-1, 0], [2, 1]), Simplex(3, 2.0)):
        for s in (1.0, 2.0):
            d, q = domain.dimension, domain.dual_exponent
            bound = loss.leaf_scalar_bound(loss.margin_bound(domain), s)
            theta = before = domain.center
            engine = loss._glm_engine
            for k in range(1, 60):
                x = rng.normal(size=(50, d))
                x[::2] = np.sign(x[::2])
                x *= loss.feature_bound / np.linalg.norm(x, q, axis=1)[:, None]
                y = rng.choice(loss.label_range, 50)
                leaf = k * engine.derivatives(x @ theta, y) - (k - 1) * engine.derivatives(
                    x @ before, y
                )
                assert np.abs(leaf).max() <= bound * (1 + 1e-12)
                before = theta
                theta = theta + s / (k + s) * (domain.minimize_linear(rng.normal(size=d)) - theta)


def test_formulas() -> None:
    assert SquaredLoss(1, 1.25).leaf_scalar_bound(2.0) == 6.5
    assert SquaredLoss(1, 1.25, weight=0.5).leaf_scalar_bound(2.0) == 3.25
    assert SquaredLoss(1, 1.25).leaf_scalar_bound(2.0, 3.0) == 2 * (5 * 2.0 + 1.25)
    assert SquaredLoss(1, 1.25).leaf_scalar_bound(2.0, 0.5) == 6.5
    bounds = [LogisticLoss(1.0).leaf_scalar_bound(a) for a in (0.5, 1.0, 2.0, 4.0)]
    assert bounds == [0.625, 0.75, 1.0, 1.5]
    assert LogisticLoss(1.0).leaf_scalar_bound(1.0, 2.0) == 0.5 + 3 / 4
    # Small steps: the general bound is the smaller one.
    general = 1 / (1 + math.exp(-10.0)) + 2 * 0.01 * 10.0 / 4
    assert LogisticLoss(1.0).leaf_scalar_bound(10.0, 0.01) == pytest.approx(general)
    assert HuberLoss(1, 1.0).leaf_scalar_bound(2.0) == 3.0
    assert HuberLoss(1, 9.0, threshold=0.5).leaf_scalar_bound(2.0) == 4.5
    assert HuberLoss(1, 1.0, threshold=0.5).leaf_scalar_bound(2.0, 2.0) == 7.0


def test_squared_leaf_is_the_gradient_at_the_last_vertex() -> None:
    """k grad f(theta_k) - (k-1) grad f(theta_{k-1}) = grad f(v_{k-1}) for steps 1/(k+1)."""
    rng = np.random.default_rng(32)
    for p in (1.0, 1.5, 2.0, math.inf):
        domain, loss = LpBall(5, p, 0.9), SquaredLoss(1.0, 1.0)
        theta = before = vertex = domain.center
        for k in range(1, 30):
            x, y = rng.normal(size=5), rng.uniform(-1, 1)
            leaf = k * loss.gradient(theta, x, y) - (k - 1) * loss.gradient(before, x, y)
            assert leaf == pytest.approx(loss.gradient(vertex, x, y), abs=1e-10)
            vertex = domain.minimize_linear(rng.normal(size=5))
            before, theta = theta, theta + (vertex - theta) / (k + 1)
