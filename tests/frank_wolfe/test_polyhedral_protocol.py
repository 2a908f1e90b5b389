"""DP-POFW: order of calls, batches, bad input, bounds, saved states, copies."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import CustomLoss, SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)
T, D = 24, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)


def make(domain=None, loss=None, *, seed=1, horizon=T, budget=BUDGET, **options):
    return PolyhedralFrankWolfe(
        LpBall(D, 1.0) if domain is None else domain,
        loss or SquaredLoss(1.0, 1.0),
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **options,
    )


def test_incomplete_last_batch_is_never_used():
    learner = make(horizon=11, batch=4)
    trace = learner.run(X[:11], Y[:11])
    assert list(trace.switches) == [3, 7]
    assert learner.plan.mechanism.rounds == 2
    other = make(horizon=11, batch=4)
    other.run(np.vstack([X[:8], -X[8:11]]), Y[:11])
    assert np.array_equal(other.last_decision, learner.last_decision)
    assert learner.user_rho(9) == 0.0 < learner.user_rho(7) < learner.user_rho(0)


def test_records_are_clipped_in_the_maximum_norm_also_on_a_box():
    box = Box([-1.0] * D, [1.0] * D)
    inside = np.full(D, 1.0)  # l_1 norm 4, maximum norm 1
    for domain in (LpBall(D, 1.0), box):
        a, b, c = (make(domain, batch=1, horizon=1) for _ in range(3))
        for learner, row in ((a, inside), (b, 3.0 * inside), (c, 0.5 * inside)):
            learner.run(row[None, :], [0.5])
        sums = [learner._engine.nonprivate_sum() for learner in (a, b, c)]
        np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)
        assert np.abs(sums[0]).max() == pytest.approx(1.0)
        assert np.abs(sums[2]).max() == pytest.approx(0.5)
    strict = make(box, on_violation="raise")
    strict.decide()
    strict.observe(inside, 0.5)
    strict.decide()
    with pytest.raises(ValueError, match="outside"):
        strict.observe(1.1 * inside, 0.5)
    assert strict.round == 1


def test_custom_losses_are_clipped_as_leaves():
    class Wild:
        def __init__(self, size):
            self.size = size

        def gradient(self, theta):
            return np.full(D, self.size)

    for size in (1e9, np.nan, np.inf):
        learner = make(loss=CustomLoss(1.0, 0.5), batch=1)
        for _ in range(4):
            learner.decide()
            learner.observe(Wild(size))
        bound = learner.plan.mechanism.scores.leaf
        assert bound == pytest.approx(0.5 * 2.0 + 1.0)
        total = learner._engine.nonprivate_sum()
        assert np.abs(total).max() == pytest.approx(4 * bound if size == 1e9 else 0.0)
    calls = []

    class Counted(Wild):
        def gradient(self, theta):
            calls.append(theta)
            return super().gradient(theta)

    learner = make(loss=CustomLoss(1.0, 0.5), batch=2)
    for _ in range(3):
        learner.decide()
        learner.observe(Counted(0.1))
    assert len(calls) == 4  # twice from the second batch on


def test_hopeless_budgets_warn():
    with pytest.warns(dpoco.NoiseDominatesWarning):
        make(horizon=20, budget=dpoco.Budget(0.01, 1e-6))
