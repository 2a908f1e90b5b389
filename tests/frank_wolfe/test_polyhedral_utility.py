"""DP-POFW learns: fixed seeds, bands far from chance (an argmax for an argmin must fail)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.published import built

import dpoco
from dpoco.domains import LpBall, VertexSet
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def suboptimality(T, d, epsilon, seed, **options):
    """Excess risk over that of predicting zero; features of maximum norm 1, five active ones."""
    rng = np.random.default_rng(seed)
    best = np.zeros(d)
    best[:5] = [0.2, -0.2, 0.2, 0.2, -0.2]
    X = rng.normal(size=(T + 5000, d))
    X /= np.abs(X).max(axis=1, keepdims=True)
    y = X @ best + 0.05 * rng.normal(size=T + 5000)
    learner = built(
        PolyhedralFrankWolfe, LpBall(d, 1.0), SquaredLoss(1.0, 1.25, weight=0.5), horizon=T,
        budget=None if epsilon is None else dpoco.Budget(epsilon, 1.0 / T),
        source=Source.seeded(seed), **options,
    )  # fmt: skip
    learner.run(X[:T], y[:T], record_decisions=False)
    fresh = X[T:]
    return np.mean((fresh @ (learner.last_decision - best)) ** 2) / np.mean((fresh @ best) ** 2)


def mean(epsilon, *, T=30_000, d=50, seeds=4, **options):
    return float(np.mean([suboptimality(T, d, epsilon, seed, **options) for seed in range(seeds)]))


def test_measured_numbers_of_regression():
    assert mean(None) < 0.01
    assert 0.2 < mean(1.0) < 0.42
    assert 0.05 < mean(4.0) < 0.16


def test_batches_and_the_exponent_pay():
    single = mean(4.0, seeds=2, batch=1, exponent=0.5)
    half, best = mean(4.0, batch=94, exponent=0.5), mean(4.0, batch=94)
    assert single > 0.85
    assert 0.3 < half < 0.55
    assert 0.2 < best < 0.4
    assert mean(4.0) < 0.5 * best


def test_the_published_algorithm_learns_little_and_laplace_less_than_gumbel():
    assert mean(4.0, seeds=2, calibration="paper") > 0.9
    assert mean(4.0, selector="laplace", batch=94) > 1.2 * mean(4.0, batch=94)


def test_dimension_enters_by_its_logarithm():
    assert mean(8.0, T=20_000, d=1000, seeds=2) < 0.45


def test_lists_of_vertices_are_learnt_too():
    """Shortest path by costs of edges: the vertices are the paths of a grid of 3 x 3 corners."""
    paths = []
    for code in range(16):
        steps = [(code >> i) & 1 for i in range(4)]
        if sum(steps) != 2:
            continue
        row = column = 0
        path = np.zeros(12)
        for step in steps:
            path[(row * 2 + column) if step else 6 + column * 2 + row] = 1.0
            row, column = (row, column + 1) if step else (row + 1, column)
        paths.append(path)
    domain = VertexSet(np.array(paths))
    rng = np.random.default_rng(0)
    means = rng.uniform(0.2, 0.8, 12)
    T = 4000
    costs = (rng.uniform(size=(T, 12)) < means).astype(float)
    learner = PolyhedralFrankWolfe(
        domain, LinearLoss(1.0), horizon=T, budget=dpoco.Budget(1.0, 1e-5), batch=40,
        source=Source.seeded(1),
    )  # fmt: skip
    learner.run(costs)
    scores = np.array(paths) @ means
    reached = (means @ learner.last_decision - scores.min()) / (scores.mean() - scores.min())
    assert reached < 0.35
