"""The high-dimensional bandit: order of calls, input, copies, threads, interruption."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)
K, D = 3, 4


def make(configuration=None, *, arms=K, dimension=D, horizon=30, seed=1, **options):
    options = {"budget": BUDGET, **(configuration or {}), **options}
    return HighDimensionalBandit(
        arms, LpBall(dimension, 1.0), horizon=horizon, source=Source.seeded(seed), **options
    )


TREE = {"arm_learner": "tree", "forced_rounds": 1}


def test_violations_are_clipped_or_refused():
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [1e90, 0, 0, 0], [np.nan, 0, 0, 0], [0.1, 0, 0, 0]])
    table = np.array([[5.0] * K, [-1e300] * K, [0.5] * K, [np.inf] * K])
    tame_rows = np.array([[0.75, 1.0, 0, 0], [1.0, 0, 0, 0], [0.0] * D, [0.1, 0, 0, 0]])
    tame_table = np.array([[1.0] * K, [-1.0] * K, [0.5] * K, [np.nan] * K])
    wild, tame = make(TREE), make(TREE)
    wild.run(rows, table)
    tame.run(tame_rows, tame_table)
    assert wild.coefficients == pytest.approx(tame.coefficients, rel=1e-9, abs=1e-12)
    assert wild.nonprivate_violations == 6


def test_worlds_and_logs_take_the_learner():
    world = dpoco.environments.LinearWorld(3, 4, 200, norm=np.inf, seed=1)
    options = {"horizon": 200, "reward_bound": world.reward_bound, "forced_rounds": 5}
    played = dpoco.environments.play_bandit(make(**options), world)
    run = make(**options).run(world.contexts, world.rewards)
    assert np.array_equal(played.actions, run.actions)
    assert np.array_equal(played.rewards, run.rewards)
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=200)
    log = dpoco.evaluation.LoggedBandit(
        world.contexts, actions, world.rewards[np.arange(200), actions], np.full(200, 1 / 3), 3
    )
    learner = make(**options)
    result = dpoco.evaluation.replay_log(learner, log)
    assert 0 < learner.round < 200
    assert result is not None
    value = dpoco.evaluation.off_policy_value(log, learner)
    want = dpoco.evaluation.off_policy_value(log, learner.recommend(world.contexts))
    assert value == want
