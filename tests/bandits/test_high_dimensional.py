"""The high-dimensional bandit against a second implementation; clocks; the law of its noise."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy
from tests.frank_wolfe.polyhedral_reference import vertices_of
from tests.plans import arms as arms_of
from tests.plans import changed
from tests.probes import probes
from tests.samples import replays

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.random import Source

from .high_dimensional_reference import Arm, Bandit, law

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, K, D = 60, 3, 4
RNG = np.random.default_rng(0)
X, R = RNG.uniform(-1.3, 1.3, size=(T, D)), RNG.normal(size=(T, K)) * 0.8
X[[2, 11, 30, 41]] = [[np.nan] * D, [0.0] * D, [1e300, -1e300, 0, 0], [np.inf, 0, 0, 0]]
R[[5, 20, 44]] = [[np.nan] * K, [np.inf] * K, [1e300] * K]
BALL = LpBall(D, 1.0, 0.8)


def make(arms=K, domain=BALL, horizon=T, budget=None, **options):
    return HighDimensionalBandit(
        arms,
        domain,
        horizon=horizon,
        budget=budget,
        source=Source.seeded(1),
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


CASES = [
    (BALL, {}),
    (BALL, {"arm_learner": "tree", "forced_rounds": 3}),
    (BALL, {"batch": 4, "forced_rounds": 6}),  # the freeze is within a batch
    (BALL, {"arm_learner": "tree", "batch": 3, "forced_rounds": 4}),
    (BALL, {"forced_rounds": 0, "gap": 0.2}),
    (BALL, {"forced_rounds": 7, "gap": 0.0}),
    (BALL, {"forced_rounds": 7, "gap": 0.3}),
    (BALL, {"forced_rounds": 7, "gap": 0.04, "link": "logistic"}),
    (BALL, {"forced_rounds": 2, "link": "logistic", "batch": 2}),
    (BALL, {"forced_rounds": 20}),  # T = K t0
    (BALL, {"forced_rounds": 25}),  # the horizon ends in the forced rounds
    (BALL, {"selector": "laplace", "batch": 1}),
    (BALL, {"arm_learner": "tree", "sum_method": "tree", "context_bound": 0.5}),
    (Simplex(D, 1.5), {"reward_bound": 0.5}),
    (Box([-1.0] * D, [0.5] * D), {"forced_rounds": 2}),
    (VertexSet(RNG.normal(size=(6, D))), {"forced_rounds": 2, "gap": 0.5}),
]


@pytest.mark.parametrize("index", range(len(CASES)))
def test_without_noise_it_is_the_reference(index):
    domain, options = CASES[index]
    learner = make(domain=domain, **options)
    reference = Bandit(arms_of(learner.plan), domain)
    clocks = []
    for t in range(T):
        arm = learner.decide(X[t])
        before = learner._engine.nonprivate_sums().reshape(K, D)
        want, leaves = reference.play(X[t], R[t])
        assert arm == want, t
        learner.observe(R[t, arm])
        np.testing.assert_allclose(
            learner.coefficients, [a.theta for a in reference.arms], atol=1e-9
        )
        assert learner._engine.clocks() == reference.clocks
        clocks.append(tuple(reference.clocks))
        added = learner._engine.nonprivate_sums().reshape(K, D) - before
        for other in range(K):
            # An arm that is not chosen gets exactly nothing, and its clock runs.
            if learner._plan_arguments(learner.plan)["batch"] == 1:
                np.testing.assert_allclose(added[other], leaves.get(other, 0.0), atol=1e-9)
                assert other == arm or not added[other].any()
    if reference.frozen is not None:
        np.testing.assert_allclose(
            probes.frozen(learner._engine).reshape(K, D), reference.frozen, atol=1e-9
        )
    assert max(clocks[-1]) == learner.plan.tuning.arm.horizon
    for t, shown in enumerate(clocks, start=1):
        forced = min(t, K * learner.plan.mechanism.forced)
        free = t - forced
        assert sum(shown) == forced + K * free  # no clock depends on an action
        if free:
            assert len(set(shown)) == 1


def test_rounds_of_oracle_trajectories():
    """Trajectories of the plain learner, worked out by hand, through a bandit with one arm."""
    rows = [[.6, -.8, .2], [.1, .5, -.7], [-.4, .3, .9], [.8, .1, .1], [-.2, -.6, .5],
            [.3, .3, -.3]]  # fmt: skip
    y = [0.5, -0.3, 0.8, 0.2, -0.6, 0.1]
    learner = make(1, LpBall(3, 1.0), 6, batch=2, arm_learner="polyhedral")
    learner.run(rows, np.array(y)[:, None])
    np.testing.assert_allclose(learner.coefficients, [[0.0, -0.25, 0.5]], atol=1e-12)
    learner = make(1, LpBall(3, 1.0), 6, link="logistic", forced_rounds=3)
    learner.run(rows, (np.array(y) > 0.0).astype(float)[:, None])
    want = [[0.142857142857, -0.285714285714, 0.428571428571]]
    np.testing.assert_allclose(learner.coefficients, want, atol=1e-11)


@pytest.mark.parametrize("kind", ["polyhedral", "tree"])
def test_small_worlds(kind):
    for (arms, d, rounds), forced in itertools.product(
        [(1, 1, 1), (1, 1, 7), (5, 1, 3), (1, 6, 9)], [None, 0, 1, 3]
    ):
        if forced is not None and forced > rounds:
            continue
        learner = make(
            arms, LpBall(d, 1.0), rounds, dpoco.Budget(1.0, 1e-5), forced_rounds=forced,
            arm_learner=kind,
        )  # fmt: skip
        trace = learner.run(np.full((rounds, d), 0.5), np.ones((rounds, arms)))
        assert np.all((trace.actions >= 0) & (trace.actions < arms))
        assert learner.coefficients.shape == (arms, d)
        assert max(learner._engine.clocks()) == learner.plan.tuning.arm.horizon
        assert learner.guarantee.epsilon <= 1.0 + 1e-9


def test_advice_follows_the_estimates_in_forced_rounds_too():
    learner = make(2, LpBall(2, 1.0), 40, forced_rounds=15, batch=1)
    rows = np.eye(2)[np.arange(30) % 2]
    table = np.column_stack([rows[:, 0], rows[:, 1]])  # each arm is good in one context
    learner.run(rows[:20], table[:20])
    assert learner.decide(np.eye(2)[0]) == 1  # forced
    learner.observe(0.0)
    assert learner.recommend(np.eye(2)[:1])[0] == 0
    learner.run(rows[21:], table[21:])
    assert list(learner.recommend(np.eye(2))) == [0, 1]


def test_whom_a_forced_round_is_due_to():
    engine = make(3, LpBall(2, 1.0), 12, forced_rounds=2, batch=1)._engine
    for promised, arm in (
        ((0, 0, 0), 0), ((1, 0, 0), 0), ((2, 0, 0), 1), ((2, 2, 1), 2), ((5, 3, 2), 2),
        ((2, 2, 2), 0), ((4, 2, 2), 1),
    ):  # fmt: skip
        assert engine.due(np.array(promised, dtype=float)) == arm
    for t in range(6):
        engine.decide(t, np.eye(2)[0])
        engine.observe(t, 0.5)
        assert engine.due(np.zeros(3)) == ((t + 1) // 2 if t < 5 else -1)
    assert engine.due(np.full(3, 9.0)) == -1


def first_vertices(scale, repetitions):
    """Vertices that arms 0 and 1 select first, after a record of arm 0 and a zero record."""
    base = make(2, LpBall(2, 1.0), 2, dpoco.Budget(6.0, 1e-3), forced_rounds=0, batch=1,
                arm_learner="polyhedral")  # fmt: skip
    p = base.plan
    parts = p.mechanism.parts
    p = changed(p, parts=tuple(dataclasses.replace(one, scale=scale * one.scale) for one in parts))
    counts = np.zeros((2, 4))
    x = np.array([[1.0, 0.3]])
    points = 0.5 * vertices_of(LpBall(2, 1.0))
    for learner in replays(make(2, LpBall(2, 1.0), 2, plan=p), repetitions):
        learner.run(x, np.array([[0.9, 0.0]]))
        for arm in range(2):
            counts[arm, np.argmin(np.abs(points - learner.coefficients[arm]).sum(axis=1))] += 1
    return arms_of(base.plan), counts


def test_the_law_of_a_selection_through_an_arm():
    p, counts = first_vertices(1.0, 1000)
    start = np.zeros(2)
    after, _ = Arm(start, start, start, start).add(p, np.array([1.0, 0.3]), 0.9)
    chosen = law(p, LpBall(2, 1.0), after.direction(p), 1)
    for arm, chances in enumerate((chosen, np.full(4, 0.25))):
        assert scipy.stats.chisquare(counts[arm], 1000 * chances).pvalue > 1e-6
    assert scipy.stats.chisquare(counts[0], 1000 * np.full(4, 0.25)).pvalue < 1e-6
    _, wrong = first_vertices(0.5, 1000)
    assert scipy.stats.chisquare(wrong[0], 1000 * chosen).pvalue < 1e-6


def test_the_law_of_a_noisy_sum_through_an_arm():
    p = make(2, LpBall(1, 1.0), 2, dpoco.Budget(3.0, 1e-3), forced_rounds=0, arm_learner="tree")
    p, n = p.plan, 800
    scale = p.mechanism.parts[0].scale
    up = np.zeros(2)
    for learner in replays(make(2, LpBall(1, 1.0), 2, plan=p), n):
        learner.run([[1.0]], [[1.0, 0.0]])
        up += learner.coefficients[:, 0] > 0
    # The leaf is -1, so that arm 0 moves up unless noise exceeds 1; arm 1 has noise alone.
    for count, chance in zip(up, (scipy.stats.norm.cdf(1.0 / scale), 0.5), strict=True):
        assert abs(count - n * chance) < 5.0 * math.sqrt(n * chance * (1.0 - chance))
    assert abs(up[0] - n * scipy.stats.norm.cdf(4.0 / scale)) > 5.0 * math.sqrt(n / 4)


def test_arms_have_noise_of_their_own():
    learner = make(4, LpBall(50, 1.0), 400, dpoco.Budget(1.0, 1e-5), forced_rounds=0, batch=4,
                   arm_learner="polyhedral")  # fmt: skip
    learner.run(np.zeros((400, 50)), np.zeros((400, 4)))  # noise alone
    shown = learner.coefficients
    assert len({row.tobytes() for row in shown}) == 4
    assert np.abs(np.corrcoef(shown) - np.eye(4)).max() < 0.8
    again = make(4, LpBall(50, 1.0), 400, dpoco.Budget(1.0, 1e-5), forced_rounds=0, batch=4,
                 arm_learner="polyhedral")  # fmt: skip
    again.run(np.zeros((400, 50)), np.zeros((400, 4)))
    assert np.array_equal(shown, again.coefficients)
