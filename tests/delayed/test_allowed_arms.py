"""Arms that come, go or are masked in a round."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.accounting import linucb
from dpoco.random import Source

from .families import BANDITS, BOUNDED, D, K, T, of, world

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X, R = world()
LEARNERS = {name: make for name, make in BANDITS.items() if name.startswith("linucb")} | {
    f"linucb, half-life, batches of {batch}": of(
        "bandits", "LinUCB", K, D, half_life=8.0, batch=batch, exploration=1.0, numerics="float",
        **BOUNDED,
    )
    for batch in (1, 4)
}  # fmt: skip
MASKED = list(LEARNERS)
MASK = np.arange(K) != 0


def draw_mask(rng):
    mask = rng.random(K) < 0.5
    mask[rng.integers(K)] = True
    return mask


class Oracle:
    """Upper confidence bounds in NumPy, from what the learner has released so far."""

    def __init__(self, learner):
        self.learner, self.plan = learner, learner.plan
        self.kept = linucb.kept_statistics(self.plan.mechanism, self.plan.tuning)
        self.batch = self.plan.mechanism.batch
        self.sums = self.total = learner._engine.released()
        self.releases = 0

    def follow(self):
        """Take up the releases of the round that has just ended."""
        releases = self.learner.round // self.batch
        if releases == self.releases:
            return
        before, self.total = self.total, self.learner._engine.released()
        self.sums = (1.0 if self.kept is None else self.kept) * self.sums + (self.total - before)
        self.releases = releases

    def bounds(self, row):
        """Return estimates and upper confidence bounds of the rewards of all arms."""
        row = row / max(1.0, np.linalg.norm(row))
        found = linucb.find_confidence(self.plan.mechanism, self.plan.tuning)
        own, upper = self.plan.tuning, np.triu_indices(D)
        matrices, sums = np.zeros((K, D, D)), self.sums.reshape(K, -1)
        matrices[:, upper[0], upper[1]] = sums[:, :-D] * np.where(
            upper[0] == upper[1], 1.0, np.sqrt(0.5)
        )
        values, vectors = np.linalg.eigh(matrices, UPLO="U")
        shifts = np.full(K, own.regularization + found.margin)
        while np.any(low := values[:, 0] + shifts <= 0.0):
            shifts[low] *= 2.0
        known = np.einsum("kij,i->kj", vectors, row) ** 2 / (values + shifts[:, None])
        rounds = self.releases * self.batch
        if self.kept is not None:
            rounds = min(rounds, self.batch / (1.0 - self.kept))
        information = found.log_term + D * np.log1p(rounds * found.growth)
        width = own.exploration * (found.spread * np.sqrt(information) + found.bias)
        estimates = self.learner.coefficients @ row
        return estimates, estimates + width * np.sqrt(known.sum(axis=1))


@pytest.mark.parametrize("name", MASKED)
def test_the_allowed_arm_of_the_largest_upper_confidence_bound_is_chosen(name):
    learner, rng = LEARNERS[name](), np.random.default_rng(2)
    oracle, barred, explored = Oracle(learner), 0, 0
    for n in range(T - 1):
        mask = draw_mask(rng)
        arm, ticket = learner.decide(X[n], ticket=True, allowed=mask)
        estimates, bounds = oracle.bounds(X[n])
        best = np.where(mask, bounds, -np.inf)
        assert mask[arm]
        assert best[arm] >= best.max() - 1e-9 * np.abs(bounds).max()
        barred += not mask[np.argmax(bounds)]
        explored += arm != np.argmax(np.where(mask, estimates, -np.inf))
        learner.observe(R[n, arm], ticket=ticket)
        oracle.follow()
    assert barred >= 5  # masks do
    assert explored > 0 or "half-life" not in name  # widths change choices


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_changes_no_draw_and_no_release(name):
    """Two learners learn of the same arms; one of them has chosen these under masks."""
    plain, masked, rng = LEARNERS[name](), LEARNERS[name](), np.random.default_rng(3)
    for n in range(T):
        mask = draw_mask(rng)
        arm, ticket = masked.decide(X[n], ticket=True, allowed=mask)
        assert plain._engine.state() == masked._engine.state()
        assert plain._engine.observe_arrival(plain.round, arm, -1, X[n], R[n, arm])
        masked.observe(R[n, arm], ticket=ticket)
        assert plain._engine.state() == masked._engine.state()


@pytest.mark.parametrize("name", MASKED)
def test_only_allowed_arms_are_chosen_and_learn(name):
    learner, rng = LEARNERS[name](), np.random.default_rng(1)
    for n in range(T):
        mask = draw_mask(rng)
        arm, ticket = learner.decide(X[n], ticket=True, allowed=mask)
        assert mask[arm]
        learner.observe(R[n, arm], ticket=ticket)
    assert learner.round > 0


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_of_all_arms_is_none(name):
    plain, masked = LEARNERS[name](), LEARNERS[name]()
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
        with pytest.raises(ValueError, match="that force none take masks"):
            BANDITS[name]().decide(X[0], ticket=True, allowed=MASK)
    arm, _ = learner.decide(np.full(X.shape[1], np.nan), ticket=True, allowed=MASK)
    assert arm != 0
