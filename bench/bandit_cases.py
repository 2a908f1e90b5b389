"""Rows of the table for `dpoco.bandits`, and the NumPy loop LinUCB is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, compare, rate
from numpy.typing import NDArray

import dpoco
from dpoco.accounting.linucb import calibrate, find_confidence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
HORIZON = 10**7


class LinUCB:
    """Plain LinUCB as a NumPy user writes it: inverses kept up to date by rank-one formulas."""

    def __init__(self, arms: int, dimension: int) -> None:
        p = calibrate(arms, dimension, horizon=HORIZON, budget=None)
        self._width = find_confidence(p.mechanism, p.tuning)
        self._inverse = np.array([np.eye(dimension) / p.tuning.regularization] * arms)
        self._coefficients = np.zeros((arms, dimension))
        self._sums = np.zeros((arms, dimension))
        self._round = 0

    def run(self, contexts: FloatArray, rewards: FloatArray) -> IntArray:
        chosen = np.empty(len(contexts), dtype=np.int64)
        for t, x in enumerate(contexts):
            turned = self._inverse @ x
            width = self._width.width(self._round)
            arm = np.argmax(self._coefficients @ x + width * np.sqrt(turned @ x))
            own = turned[arm]
            self._inverse[arm] -= np.outer(own, own) / (1.0 + own @ x)
            self._sums[arm] += rewards[t, arm] * x
            self._coefficients[arm] = self._inverse[arm] @ self._sums[arm]
            self._round += 1
            chosen[t] = arm
        return chosen


def learner(
    arms: int, d: int, *, budget: dpoco.Budget | None = BUDGET, batch: int | None = None
) -> dpoco.bandits.LinUCB:
    return dpoco.bandits.LinUCB(
        arms,
        d,
        horizon=HORIZON,
        budget=budget,
        batch=batch,
        exploration=1.0,
        context_bound=1.0,
        reward_bound=1.0,
    )


def high_dimensional(arms: int, d: int, kind: str) -> dpoco.bandits.HighDimensionalBandit:
    return dpoco.bandits.HighDimensionalBandit(
        arms,
        dpoco.domains.LpBall(d, p=1.0, radius=1.0),
        horizon=HORIZON,
        budget=BUDGET,
        arm_learner=kind,
        forced_rounds=0,
        context_bound=1.0,
        reward_bound=1.0,
    )


def records(arms: int, d: int, rounds: int) -> tuple[FloatArray, FloatArray]:
    """Contexts on the unit sphere, rewards in [-1, 1]."""
    world = dpoco.environments.LinearWorld(
        arms, d, rounds, parameter_bound=0.9, reward_noise=0.1, seed=d
    )
    return world.contexts, world.rewards


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitor()
    for arms, d, batch, rounds, target in (
        (5, 50, None, 20_000, 50_000.0),
        (5, 50, 1, 4000, 5000.0),
        (5, 10, None, 100_000, None),
    ):
        data = records(arms, d, max(rounds // shrink, 200))
        name = "batches as calibrated" if batch is None else "a release every round"
        yield rate(
            "LinUCB: rounds per second of CPU time",
            f"run, d = {d}, {arms} arms, {name}",
            partial(learner(arms, d, batch=batch).run, *data),
            units=len(data[0]),
            repetitions=pairs,
            target=target,
        )
    for d, kind, rounds, target in (
        (50, "polyhedral", 100_000, 1_000_000.0),
        (50, "tree", 20_000, 200_000.0),
        (1000, "polyhedral", 20_000, None),
    ):
        data = records(5, d, max(rounds // shrink, 200))
        yield rate(
            "HighDimensionalBandit: rounds per second of CPU time",
            f"run, d = {d}, 5 arms, {kind}",
            partial(high_dimensional(5, d, kind).run, *data),
            units=len(data[0]),
            repetitions=pairs,
            target=target,
        )
    for d in (10, 50):
        data = records(5, d, max(4000 // shrink, 200))
        yield compare(
            "LinUCB.run without noise against a NumPy loop (ns per round)",
            f"d = {d}, 5 arms",
            partial(learner(5, d, budget=None).run, *data),
            partial(LinUCB(5, d).run, *data),
            against="NumPy loop",
            units=len(data[0]),
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=None,
        )


def check_competitor() -> None:
    """Raise if the NumPy loop decides something else than ours; without noise, so exactly."""
    data = records(4, 5, 400)
    np.testing.assert_array_equal(
        LinUCB(4, 5).run(*data),
        learner(4, 5, budget=None).run(*data).actions,
    )
