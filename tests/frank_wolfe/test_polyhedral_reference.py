"""Decisions against a NumPy implementation: without noise exactly, with noise by frequencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy

import dpoco
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

from . import polyhedral_reference as reference

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X = np.array([[0.6, -0.8, 0.2], [0.1, 0.5, -0.7], [-0.4, 0.3, 0.9], [0.8, 0.1, 0.1],
              [-0.2, -0.6, 0.5], [0.3, 0.3, -0.3]])  # fmt: skip
Y = np.array([0.5, -0.3, 0.8, 0.2, -0.6, 0.1])
POINTS = np.random.default_rng(5).normal(size=(70, 4))
DOMAINS = [LpBall(4, 1.0, 2.0), Simplex(4, 1.5), Box([-1.0, 0.0, -2.0, 1.0], [1.0, 2.0, 0.0, 1.5]),
           VertexSet(POINTS)]  # fmt: skip


def test_published_trajectories():
    ball = LpBall(3, 1.0)
    half = SquaredLoss(1.0, 1.0, weight=0.5)
    learner = PolyhedralFrankWolfe(ball, half, horizon=6, budget=None, batch=2)
    trace = learner.run(X, Y)
    np.testing.assert_allclose(learner.last_decision, [0.0, -0.25, 0.5], atol=1e-12)
    assert list(trace.switches) == [1, 3, 5]
    learner = PolyhedralFrankWolfe(ball, LogisticLoss(1.0), horizon=6, budget=None)
    learner.run(X, (Y > 0).astype(float))
    want = [0.142857142857, -0.285714285714, 0.428571428571]
    np.testing.assert_allclose(learner.last_decision, want, atol=1e-11)


@pytest.mark.parametrize("weights", ["unbiased", "paper"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_without_noise_decisions_are_those_of_the_reference(domain, batch, weights):
    rng = np.random.default_rng(1)
    rows, labels = 1.5 * rng.normal(size=(50, 4)), rng.uniform(-1, 1, 50)
    rows[7, 2] = np.nan
    points = reference.vertices_of(domain)
    learner = PolyhedralFrankWolfe(
        domain, SquaredLoss(1.0, 1.0), horizon=50, budget=None, batch=batch, weights=weights
    )
    trace = learner.run(rows, labels)
    want = reference.decisions(
        rows, labels, lambda k, g: points[np.argmin(points @ g)], start=domain.center, batch=batch,
        clip=learner.plan.mechanism.scores.slope, paper_weights=weights == "paper",
    )  # fmt: skip
    np.testing.assert_allclose(trace.decisions, want[:-1], atol=1e-12)
    np.testing.assert_allclose(learner.last_decision, want[-1], atol=1e-12)
    wrong = reference.decisions(
        rows, labels, lambda k, g: points[np.argmax(points @ g)], start=domain.center, batch=batch,
    )  # fmt: skip
    assert np.abs(wrong[:-1] - trace.decisions).max() > 0.1
    assert all(domain.contains(theta) for theta in trace.decisions)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_losses_of_a_run_are_those_of_clipped_records(domain):
    rng = np.random.default_rng(1)
    rows, labels = 1.5 * rng.normal(size=(30, 4)), rng.uniform(-1, 1, 30)
    learner = PolyhedralFrankWolfe(domain, SquaredLoss(1.0, 1.0), horizon=30, budget=None)
    trace = learner.run(rows, labels)
    clipped = rows * np.minimum(1.0, 1.0 / np.abs(rows).max(axis=1))[:, None]
    margins = (clipped * trace.decisions).sum(axis=1)
    np.testing.assert_allclose(trace.losses, (margins - labels) ** 2, atol=1e-9)
    np.testing.assert_allclose(
        learner._loss.batch_values(learner._domain, np.array(domain.center), rows, labels),
        (clipped @ domain.center - labels) ** 2, atol=1e-9,
    )  # fmt: skip


def test_linear_and_custom_losses_agree_with_squared_ones():
    class Half:
        def __init__(self, x, y):
            self.x, self.y = x, y

        def value(self, theta):
            return 0.5 * (theta @ self.x - self.y) ** 2

        def gradient(self, theta):
            return (theta @ self.x - self.y) * self.x

    ball = LpBall(3, 1.0)
    squared = PolyhedralFrankWolfe(
        ball, SquaredLoss(1.0, 1.0, weight=0.5), horizon=6, budget=None, batch=2
    )
    squared.run(X, Y)
    custom = PolyhedralFrankWolfe(ball, CustomLoss(2.0, 1.0), horizon=6, budget=None, batch=2)
    for x, y in zip(X, Y, strict=True):
        custom.decide()
        custom.observe(Half(x, y))
    np.testing.assert_allclose(custom.last_decision, squared.last_decision, atol=1e-12)

    linear = PolyhedralFrankWolfe(ball, LinearLoss(1.0), horizon=6, budget=None)
    linear.run(X)
    theta, total = np.zeros(3), np.zeros(3)
    for k, g in enumerate(X, start=1):
        total += g
        j = np.argmax(np.abs(total))
        theta += (-np.sign(total[j]) * np.eye(3)[j] - theta) / (k + 1)
    np.testing.assert_allclose(linear.last_decision, theta, atol=1e-12)


@pytest.mark.parametrize(
    ("domain", "weights", "selector"),
    [(LpBall(2, 1.0), "unbiased", "gumbel"), (LpBall(2, 1.0), "unbiased", "laplace"),
     (Box([-1.0, 0.0], [0.0, 1.0]), "unbiased", "laplace"), (Simplex(3), "paper", "gumbel"),
     (VertexSet([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]), "unbiased", "laplace")],
    ids=["ball, gumbel", "ball, laplace", "box", "simplex", "list"],
)  # fmt: skip
def test_frequencies_of_transcripts_are_those_of_the_enumeration(domain, weights, selector):
    """The scale of every update included: a scale 30 % off must fail."""
    runs, d = 6000, domain.dimension
    rows, labels = np.array([[1.0, -0.5, 0.3], [0.8, 0.9, -1.0]])[:, :d], np.array([-1.0, 0.7])
    loss = SquaredLoss(1.0, 1.0, weight=0.5)
    options = {"horizon": 2, "selector": selector, "weights": weights, "batch": 1}
    learner = PolyhedralFrankWolfe(domain, loss, budget=dpoco.Budget(40.0, 1e-3), **options)
    points = reference.vertices_of(domain)
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(runs):
        engine = learner._build_engine(Source.seeded(seed)._claim())
        path, theta = [], np.array(domain.center)
        for k in (1, 2):
            engine.observe(k - 1, rows[k - 1].copy(), float(labels[k - 1]))
            after = engine.decision()
            vertex = theta + (k + 1) * (after - theta)
            path.append(int(np.argmin(np.abs(points - vertex).sum(axis=1))))
            theta = after
        counts[tuple(path)] = counts.get(tuple(path), 0) + 1
    want = reference.transcripts(learner, lambda t, path: (rows[t], labels[t]))

    def statistic(chances):
        common = {path: p for path, p in chances.items() if p * runs >= 8.0}
        rest = runs - sum(counts.get(path, 0) for path in common)
        expected = runs * (1.0 - sum(common.values()))
        value = sum((counts.get(s, 0) - p * runs) ** 2 / (p * runs) for s, p in common.items())
        value += (rest - expected) ** 2 / expected if expected > 8.0 else 0.0
        return value / scipy.stats.chi2.isf(1e-7, len(common))

    assert statistic(want) < 1.0
    tight = learner.plan
    for factor in (0.7, 1.0 / 0.7):
        learner._plan = replace(
            tight, mechanism=replace(tight.mechanism, scale=factor * tight.mechanism.scale)
        )
        wrong = reference.transcripts(learner, lambda t, path: (rows[t], labels[t]))
        assert statistic(wrong) > 1.0
