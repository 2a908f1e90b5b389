"""The learner of Lipschitz losses at work: clipping, law of draws, regret."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.samples import replays

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.oco import LipschitzLearner
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
LINE = Box([0.0], [1.0])
SQUARE = Box([0.0, -1.0], [2.0, 1.0])
DISC = LpBall(2, 2.0, 1.0)


def make(domain, horizon=20, *, seed=1, **options):
    arguments = {"lipschitz": 1.0, "budget": BUDGET, "source": Source.seeded(seed)}
    return LipschitzLearner(domain, horizon=horizon, **arguments, resolution=4, **options)


def test_audit_catches_a_learner_that_does_not_clip():
    learner = make(SQUARE, enforce=False)
    n = len(learner.points)
    gap = np.linalg.norm(learner._engine.leaf(50.0 * (np.arange(n) % 2.0)))
    assert gap > learner.guarantee.sensitivity
    assert not learner.guarantee.certified


def test_decisions_follow_the_published_law():
    """Given the weights w, the next decision J is a draw from them: E w_J = sum w^2."""
    own, expected, spread, uniform = 0.0, 0.0, 0.0, 0.0
    for learner in replays(make(LINE, 2, sum_method="tree", learning_rate=0.3), 400):
        learner.decide()
        learner.observe(np.array([0.0, 0.3, 0.6, 0.9]))
        weights = learner.weights
        assert weights.sum() == pytest.approx(1.0, rel=1e-12)
        own += weights[np.flatnonzero(learner.points[:, 0] == learner.decide()[0])[0]]
        expected += float(np.sum(weights**2))
        spread += float(np.sum(weights**3) - np.sum(weights**2) ** 2)
        uniform += 0.25
    assert abs(own - expected) < 5.0 * math.sqrt(spread)
    assert abs(uniform - expected) > 7.0 * math.sqrt(spread)


@pytest.mark.parametrize("domain", [LINE, DISC])
def test_learns_a_loss_with_many_valleys(domain):
    """Expected regret to the best point of the domain is below the bound, and the bound is used."""
    horizon, d = 6000, domain.dimension
    learner = LipschitzLearner(
        domain,
        lipschitz=1.0,
        horizon=horizon,
        budget=BUDGET,
        resolution=200 if d == 1 else 30,
        source=Source.seeded(3),
    )
    valley = np.array([0.82, -0.3][:d])

    def loss(x):
        away = np.linalg.norm(x - valley, axis=1)
        return 0.9 * np.minimum(away, 0.3) + 0.1 * np.sin(9.0 * x[:, 0]) / 9.0

    decoy = np.array([0.1, 0.5][:d])

    def distraction(x):
        return np.minimum(np.linalg.norm(x - decoy, axis=1), 0.3)

    rng = np.random.default_rng(0)
    losses = [loss if rng.random() < 0.7 else distraction for _ in range(horizon)]
    trace = learner.run(losses)
    best = np.array([valley, decoy])
    finals = [trace.regret(point)[-1] for point in (*best, learner.points[0])]
    noise = math.sqrt(horizon) * 0.3 * 5.0
    assert max(finals) <= learner.plan.forecast.regret_bound + noise
    uniform = np.mean([np.mean(f(learner.points)) for f in losses]) * horizon
    gained = uniform - trace.losses.sum()
    reachable = uniform - trace.comparator_losses(valley).sum()
    assert gained > 0.5 * reachable
    late = trace.decisions[-1000:]
    near = np.linalg.norm(late - valley, axis=1) < 0.3
    assert near.mean() > 0.6
    # Told the opposite, it goes elsewhere.
    wrong = learner.clone()
    away = wrong.run([lambda x, f=f: -f(x) for f in losses[:3000]])
    assert (np.linalg.norm(away.decisions[-500:] - valley, axis=1) < 0.3).mean() < 0.4
