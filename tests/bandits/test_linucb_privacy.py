"""Attacks on the claim of joint privacy: sensitivity by search, and replay on one random tape."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.plans import changed, linear_arms

import dpoco
from dpoco.bandits import LinUCB
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-4)
K, D, T = 3, 3, 24
RNG = np.random.default_rng(8)
X = RNG.normal(size=(T, D)) * 0.7
R = RNG.normal(size=(T, K)) * 0.8
NASTY = [
    ([1e300, -1e300, 0.0], [1e300, -1e300, 1e300]),
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([np.nan, 0.0, 0.0], [1.0, 1.0, 1.0]),
]


def sensitivity(reach, top, weight, change="replace"):
    moments = SecondMoments(3, 2.0, reach, math.inf, top, weight, arms=2)
    return moments.movement(Neighbours(change))


@pytest.mark.parametrize("reach", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("top", [0.5, 2.0])
def test_no_replaced_record_moves_the_statistics_further_than_declared(reach, top):
    for weight in [0.2, 1.0, math.sqrt(2.0), 5.0]:
        learner = LinUCB(
            2, 3, horizon=9, budget=BUDGET, context_bound=reach, reward_bound=top,
            reward_weight=weight, batch=1,
        )  # fmt: skip
        declared = sensitivity(reach, top, weight)
        moved = learner.plan.mechanism.summand.movement(Neighbours())
        assert declared < moved <= declared * (1.0 + 2e-12)
        emptied = sensitivity(reach, top, weight, "zero_out")
        rng = np.random.default_rng(1)
        engine, found, found_empty = learner._engine, 0.0, 0.0
        base = np.array([reach, 0.0, 0.0])
        # Extremal pairs: contexts at an angle whose cosine solves the first-order condition.
        cosine = min(1.0, 0.5 * (weight * top / reach) ** 2)
        turned = reach * np.array([-cosine, math.sqrt(1.0 - cosine**2), 0.0])
        pairs = [((0, base, top), (0, turned, top)), ((0, base, top), (1, base, -top))]
        for _ in range(400):
            sides = []
            for _ in range(2):
                x = rng.normal(size=3)
                x *= reach * rng.choice([1.0, rng.random()]) / np.linalg.norm(x)
                sides.append((int(rng.integers(2)), x, top * rng.choice([-1.0, 1.0, rng.random()])))
            pairs.append(tuple(sides))
        for one, other in pairs:
            leaves = engine.leaf(*one), engine.leaf(*other)
            found = max(found, np.linalg.norm(leaves[0] - leaves[1]))
            found_empty = max(found_empty, np.linalg.norm(leaves[0]))
        assert 0.999999 * declared < found <= declared * (1.0 + 1e-12)
        assert 0.999999 * emptied < found_empty <= emptied * (1.0 + 1e-12)


def make(**options):
    # Sums in doubles: what enters is compared to the last digit.
    options = {"budget": BUDGET, "batch": 1, "numerics": "float", **options}
    return LinUCB(
        K,
        D,
        horizon=T,
        source=Source.seeded(0),
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


def test_with_equal_releases_only_the_own_action_and_one_summand_differ():
    # Noise so large that releases are rounded to a grid no record can be seen on.
    loud = changed(make().plan, scale=1e9)

    def run(contexts, rewards):
        learner = make(plan=loud, budget=None)
        shown = []
        for t, (x, row) in enumerate(zip(contexts, rewards, strict=True)):
            arm = learner.decide(x)
            learner.observe(row[arm])
            shown.append((t, arm, learner._engine.released().tobytes()))
        return shown, np.array(learner._engine.nonprivate_sum())

    base, total = run(X, R)
    changed_arm, same_arm, largest = 0, 0, 0.0
    for index, sign in itertools.product(range(0, T - 1, 3), (1.0, -1.0)):
        for x, row in [(-X[index], sign * R[index]), (X[index], -sign * np.ones(K)), *NASTY]:
            contexts, rewards = X.copy(), R.copy()
            contexts[index], rewards[index] = x, row
            other, sums = run(contexts, rewards)
            assert [o[2] for o in other] == [b[2] for b in base]
            assert [o for o in other if o[0] != index] == [b for b in base if b[0] != index]
            changed_arm += other[index][1] != base[index][1]
            same_arm += other[index][1] == base[index][1]
            largest = max(largest, float(np.linalg.norm(sums - total)))
    declared = loud.mechanism.summand.movement(Neighbours())
    assert largest <= declared * (1.0 + 1e-9)
    assert largest > 0.5 * declared
    assert changed_arm > 3  # the case of two arms is really there
    assert same_arm > 3


def test_one_release_separates_the_worst_neighbours_by_exactly_mu():
    learner = LinUCB(
        1, 2, horizon=2, budget=BUDGET, numerics="float", context_bound=1.0, reward_bound=1.0
    )
    p, total = linear_arms(learner.plan), learner.plan.mechanism
    assert total.factorisation.column(1) == 1.0
    cosine = 0.5 * (p.reward_weight * p.reward_bound / p.context_bound) ** 2
    one = learner._engine.leaf(0, np.array([1.0, 0.0]), 1.0)
    other = learner._engine.leaf(0, np.array([-cosine, math.sqrt(1.0 - cosine**2)]), 1.0)
    distance = np.linalg.norm(one - other) / p.noise_scale
    assert distance == pytest.approx(learner.guarantee.mu, rel=1e-9)
    assert distance <= learner.guarantee.mu
    with pytest.raises(dpoco.BudgetExceeded):
        LinUCB(
            1, 2, horizon=2, budget=BUDGET,
            plan=changed(learner.plan, scale=0.99 * p.noise_scale),
            context_bound=1.0, reward_bound=1.0
        )  # fmt: skip
