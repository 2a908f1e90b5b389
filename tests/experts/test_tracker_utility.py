"""Regret of the oblivious tracker stays within its bound, and a learner with a bug does not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.samples import replays

import dpoco
from dpoco.experts import ObliviousTracker
from dpoco.random import Source

N, T, S = 4, 3000, 3


def phases(rounds=T, switches=S, experts=N, gap=1.0):
    """Losses of a sequence of best experts, and that sequence."""
    best = np.arange(rounds) * (switches + 1) // rounds % experts
    losses = np.full((rounds, experts), 0.5 + gap / 2.0)
    losses[np.arange(rounds), best] = 0.5 - gap / 2.0
    return losses, best


def regrets(losses, best, runs, **options):
    rounds, experts = losses.shape
    totals = []
    new = ObliviousTracker(experts, horizon=rounds, source=Source.seeded(0), **options)
    for learner in replays(new, runs):
        totals.append(learner.run(losses).regret(best)[-1])
    return np.array(totals), learner


@pytest.mark.parametrize(
    "options",
    [
        {"budget": None, "switches": S},
        {"budget": None, "switches": S, "prior": "at_most"},
        {"budget": dpoco.Budget(6.0, 1e-5), "switches": S},
        {"budget": dpoco.Budget(6.0, 1e-5), "switches": S, "prior": "at_most"},
        {"budget": dpoco.Budget(20.0, 0.0), "switches": S},
    ],
)
def test_regret_on_switching_streams(options):
    losses, best = phases()
    measured, learner = regrets(losses, best, 16, **options)
    bound = learner.guarantee.regret_bound
    # A run's regret lies in [0, T]; Hoeffding's margin would be vacuous, the spread is small.
    assert measured.mean() + 6.0 * measured.std() / 4.0 <= bound
    assert bound < 0.45 * T
    # Bugs that must fail: no switches in the class, the largest weights for the largest losses.
    static, _ = regrets(losses, best, 8, **{**options, "switches": 0, "prior": "share",
                                            "share_rate": 0.0})  # fmt: skip
    assert static.mean() - 6.0 * static.std() / 8.0**0.5 > bound
    learner = ObliviousTracker(N, horizon=T, source=Source.seeded(1), **options)
    turned = learner.run(1.0 - losses).decisions
    assert (losses[np.arange(T), turned] - losses[np.arange(T), best]).sum() > bound


def test_any_coin_has_the_same_expected_losses():
    """p changes how often the learner draws, not the law of the expert at a batch's start."""
    losses, best = phases(400, gap=0.5)
    own = {"budget": None, "switches": S, "learning_rate": 0.1, "share_rate": 0.01}
    means, draws = [], []
    for forced in (0.0, 0.2, 1.0):
        measured, learner = regrets(losses, best, 400, forced_switch=forced, **own)
        means.append((measured.mean(), measured.std() / 20.0))
        draws.append(learner.resamples)
    for mean, error in means[1:]:
        assert abs(mean - means[0][0]) < 6.0 * (error + means[0][1])
    assert draws[0] < draws[1] < draws[2] == 399
