"""Arms that come, go or are masked in a round."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.random import Source

from .families import BANDITS, BOUNDED, K, T, world

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X, R = world()
MASKED = [name for name in BANDITS if name.startswith("linucb")]
MASK = np.arange(K) != 0


@pytest.mark.parametrize("name", ["linucb", "linucb, batches", "linucb, exact"])
def test_scores_are_what_the_engine_compares(name):
    learner = BANDITS[name]()
    for n in range(T - 1):
        arm, ticket = learner.decide(X[n], ticket=True)
        learner.observe(R[n, arm], ticket=ticket)
        chosen = learner.recommend(X)
        rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        scores = np.array([learner._scores(row) for row in rows])
        gap = scores.max(axis=1) - scores[np.arange(len(X)), chosen]
        assert np.all(gap <= 1e-9 * np.abs(scores).max())


@pytest.mark.parametrize("name", MASKED)
def test_only_allowed_arms_are_chosen_and_learn(name):
    learner, rng = BANDITS[name](), np.random.default_rng(1)
    for n in range(T):
        mask = rng.random(K) < 0.5
        mask[rng.integers(K)] = True
        arm, ticket = learner.decide(X[n], ticket=True, allowed=mask)
        assert mask[arm]
        learner.observe(R[n, arm], ticket=ticket)
    assert learner.round > 0


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_of_all_arms_is_none(name):
    plain, masked = BANDITS[name](), BANDITS[name]()
    for n in range(T):
        arm, ticket = plain.decide(X[n], ticket=True)
        same, other = masked.decide(X[n], ticket=True, allowed=[True] * K)
        assert arm == same
        assert ticket.due == other.due
        plain.observe(R[n, arm], ticket=ticket)
        masked.observe(R[n, arm], ticket=other)
    assert np.array_equal(plain.coefficients, masked.coefficients)


def test_an_arm_that_comes_late_is_learned():
    rng, rounds = np.random.default_rng(3), 4000
    learner = dpoco.bandits.LinUCB(
        3, 1, horizon=rounds, budget=dpoco.Budget(16.0, 1e-6), **BOUNDED, source=Source.seeded(1)
    )
    means, pulls = np.array([0.2, 0.0, 0.9]), np.zeros((2, 3))
    for n in range(rounds):
        late = n >= rounds // 4
        arm, ticket = learner.decide([1.0], ticket=True, allowed=[True, True, late])
        learner.observe(float(means[arm] + rng.uniform(-0.1, 0.1)), ticket=ticket)
        pulls[int(late), arm] += 1
    assert pulls[0, 2] == 0
    assert pulls[0, 0] > pulls[0, 1]
    assert pulls[1, 2] > 0.8 * pulls[1].sum()


def test_masks_that_are_none_are_refused():
    learner = BANDITS["linucb"]()
    state = learner._engine.state()
    for wrong in ([True] * (K + 1), [1] * K, [False] * K, 3):
        with pytest.raises(ValueError, match="allowed"):
            learner.decide(X[0], ticket=True, allowed=wrong)
    with pytest.raises(ValueError, match="ticket=True"):
        learner.decide(X[0], allowed=MASK)
    assert learner._engine.state() == state
    for name in ("phases", "polyhedral"):  # what is forced would depend on masks
        with pytest.raises(ValueError, match="LinUCB takes masks"):
            BANDITS[name]().decide(X[0], ticket=True, allowed=MASK)
    arm, _ = learner.decide(np.full(X.shape[1], np.nan), ticket=True, allowed=MASK)
    assert arm != 0
