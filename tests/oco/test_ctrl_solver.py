"""The coupled leader's point is found on every stream: a failure would be visible, and private.

Streams that push one way forever leave the leader hard against a wall or in a vertex, where the
barrier is steep; kinked losses have curvature that jumps. Neither may stop a learner.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.probes import probes

from dpoco import Budget
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.errors import CalibrationError, StateError
from dpoco.losses import CustomLoss, HuberLoss, LogisticLoss, QuadraticLoss, SquaredLoss
from dpoco.oco import CoupledRegularizedLeader
from dpoco.random import Source


def learner(domain, loss, horizon, epsilon, *, seed=0, **own):
    budget = None if epsilon is None else Budget(epsilon, 1e-6)
    source = Source.seeded(seed)
    return CoupledRegularizedLeader(
        domain, loss, horizon=horizon, budget=budget, source=source, **own
    )


def worst_residual(run, features, labels, parts=10):
    """Largest part of the noise that its point leaves, at the ends of the stream's parts."""
    worst = 0.0
    for at in np.array_split(np.arange(len(labels)), parts):
        if at.size:
            run.run(features[at], labels[at], record_decisions=False)
            worst = max(worst, probes.residual(run._engine))
    assert run.domain.contains(run.last_decision)
    return worst


@pytest.mark.parametrize("d", [3, 10])
def test_a_stream_into_a_face_of_the_simplex(d):
    horizon = 50_000
    run = learner(Simplex(d), LogisticLoss(1.0), horizon, 4.0, coupling="scheduled")
    features = np.tile(np.eye(d)[0], (horizon, 1))
    assert worst_residual(run, features, np.zeros(horizon)) < 1e-8


@pytest.mark.parametrize(
    ("domain", "sign"),
    [(Simplex(4), 1.0), (Simplex(4), -1.0), (Box(-np.ones(3), [1.0, 0.1, 5.0]), 1.0),
     (Box(-np.ones(3), [1.0, 0.1, 5.0]), -1.0), (LpBall(3, 2.0, 10.0), 1.0),
     (LpBall(3, 4.0, 0.1), -1.0)],
    ids=["simplex", "-simplex", "box", "-box", "ball", "-l4"],  # balls are symmetric
)  # fmt: skip
def test_a_million_rounds_into_a_vertex(domain, sign):
    horizon, rounds = 1_000_000, 20_000
    run = learner(domain, LogisticLoss(1.0), horizon, 20.0)
    record = sign * np.arange(1.0, domain.dimension + 1.0)
    assert worst_residual(run, np.tile(record, (rounds, 1)), np.zeros(rounds)) < 1e-7


@pytest.mark.parametrize("stream", ["same", "few", "far"])
def test_kinks_on_a_line(stream):
    generator = np.random.default_rng(5)
    rounds = 300
    labels = {
        "same": np.full(rounds, 0.1),
        "few": np.round(generator.standard_normal(rounds) * 4.0) / 4.0,
        "far": np.full(rounds, 2.0),
    }[stream]
    domain, loss = LpBall(1, 2.0, 1.5), HuberLoss(0.4, 2.0, threshold=0.02)
    first = learner(domain, loss, 6500, 8.0, block=1)
    for seed in range(40):
        run = learner(domain, loss, 6500, None, seed=seed, plan=first.plan)
        assert worst_residual(run, np.full((rounds, 1), 0.4), labels) < 1e-8


def test_kinks_in_space():
    generator = np.random.default_rng(6)
    loss = HuberLoss(1.0, 1.0, threshold=0.003)
    rows = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.6, -0.8]])
    for unbounded in (False, True):
        run = learner(LpBall(3, 2.0, 1.0), loss, 50_000, 20.0, block=1, unbounded=unbounded)
        at = generator.integers(0, 4, 1500)
        assert worst_residual(run, rows[at], np.array([0.1, 0.3, 0.2, 0.0])[at]) < 1e-8


def _domain(generator, d):
    size = 10.0 ** generator.uniform(-1.0, 3.0)
    kind = generator.integers(0, 6)
    if kind == 0:
        return Simplex(d + 1)
    if kind == 1:
        return LpBall(d, 2.0, size)
    if kind == 2:
        return LpBall(d, float(generator.choice([2.5, 3.0, 8.0])), size)
    if kind == 3:
        more = generator.standard_normal((d + 2, d))
        rows = np.vstack([np.eye(d), -np.eye(d), more])
        return Polytope(rows, size * np.r_[np.ones(2 * d), np.full(d + 2, 0.7)])
    return Box(-size * 10.0 ** generator.uniform(-3.0, 0.0, d), np.full(d, size))


def _loss(generator):
    bound, label, bend = 10.0 ** generator.uniform([-1.0, -1.0, -2.5], 1.0)
    return [
        LogisticLoss(bound),
        SquaredLoss(bound, label),
        HuberLoss(bound, label, threshold=bend),
        HuberLoss(bound, label, threshold=bend),
        QuadraticLoss(bound, label),
        QuadraticLoss(bound, label, strong_convexity=0.1 * label),
    ][generator.integers(0, 6)]


def _stream(generator, d, loss, rounds):
    """Few different records, large and small, in bounds and out of them."""
    count = int(generator.choice([1, 2, 5]))
    at = generator.integers(0, count, rounds)
    sizes = 10.0 ** generator.uniform(-1.0, 2.0)
    if isinstance(loss, QuadraticLoss):
        roots = generator.standard_normal((count, d, d)) * sizes
        return (roots @ roots.transpose(0, 2, 1))[at], 100.0 * generator.standard_normal(
            (count, d)
        )[at]
    rows = generator.standard_normal((count, d)) * sizes
    if generator.random() < 0.5:
        rows = np.abs(rows) * np.eye(d)[generator.integers(0, d, count)]
    labels = generator.choice([0.0, 1.0, -1.0, 5.0, -5.0, 0.3], count)
    return rows[at], labels[at]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("seed", range(7))
def test_any_set_loss_and_budget(seed):
    generator = np.random.default_rng([77, seed])
    found = 0
    while found < 3:
        domain, loss = _domain(generator, int(generator.choice([1, 2, 3, 6]))), _loss(generator)
        horizon = int(10.0 ** generator.uniform(2.5, 6.0))
        epsilon = 10.0 ** generator.uniform(-1.3, 1.3)
        coupling = str(generator.choice(["auto", "scheduled"]))
        try:
            run = learner(domain, loss, horizon, epsilon, seed=found, coupling=coupling)
        except CalibrationError:
            continue
        rounds = min(horizon, 500 if isinstance(loss, QuadraticLoss) else 5_000)
        features, labels = _stream(generator, domain.dimension, loss, rounds)
        assert worst_residual(run, features, labels) < 1e-6
        found += 1


class _Bowl:
    """(<x, x> + |<v, x>|^3 / 3) / 8 for |v| = 1."""

    def __init__(self, v):
        self.v = v

    def value(self, x):
        return float(x @ x + abs(self.v @ x) ** 3 / 3.0) / 8.0

    def gradient(self, x):
        margin = self.v @ x
        return (2.0 * x + margin * abs(margin) * self.v) / 8.0

    def hessian(self, x):
        return (2.0 * np.eye(x.size) + 2.0 * abs(self.v @ x) * np.outer(self.v, self.v)) / 8.0


class _Edge:
    """1000 |<v, x>|: convex, but with a gradient that jumps."""

    def __init__(self, v):
        self.v = v

    def value(self, x):
        return 1000.0 * abs(float(self.v @ x))

    def gradient(self, x):
        return (1000.0 if self.v @ x > 0.0 else -1000.0) * self.v

    def hessian(self, x):
        return np.zeros((x.size, x.size))


def _play(losses):
    loss = CustomLoss(lipschitz=1.0, smoothness=1.0)
    run = learner(LpBall(2, 2.0, 1.0), loss, 2000, 20.0, block=1, coupling="scheduled")
    for each in losses:
        run.decide()
        run.observe(each)
    return probes.residual(run._engine)


def test_losses_of_ones_own():
    rows = np.random.default_rng(8).standard_normal((100, 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    assert _play([_Bowl(v) for v in rows]) < 1e-9


def test_losses_that_break_their_promise():
    with pytest.raises(StateError, match="not convex and smooth"):
        _play([_Edge(np.array([0.6, 0.8]))] * 100)
