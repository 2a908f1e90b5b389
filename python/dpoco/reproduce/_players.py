"""Who plays in Figure 5.1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting import Budget
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.environments import ContextualWorld
from dpoco.errors import NoiseDominatesWarning
from dpoco.random import Source
from dpoco.reproduce._published_selection import not_private_regrets

__all__ = ["players"]

FloatArray = NDArray[np.float64]

_LARGER = 8.0  # the second budget, in units of the first


def players(
    worlds: list[ContextualWorld], epsilon: float, factors: Sequence[float], first_seed: int
) -> list[tuple[str, bool, Callable[[], FloatArray]]]:
    """Return name, whether the budget holds, and a function to the regret of every round."""
    first = worlds[0]
    arms, d, horizon = first.arms, first.dimension, first.horizon
    delta = 1.0 / horizon

    def learners(build: Callable[[Source], Any]) -> Callable[[], FloatArray]:
        def play() -> FloatArray:
            rows = []
            for seed, world in enumerate(worlds, start=first_seed):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NoiseDominatesWarning)  # the result says it
                    learner = build(Source.seeded(seed))
                trace = learner.run(world.contexts, world.rewards)
                rows.append(np.diff(trace.pseudo_regret(world.means), prepend=0.0))
            return np.array(rows)

        return play

    def high_dimensional(budget: Budget | None) -> Callable[[], FloatArray]:
        return learners(
            lambda source: HighDimensionalBandit(
                arms, LpBall(d, 1.0, 1.0), horizon=horizon, budget=budget,
                reward_bound=first.reward_bound, source=source,
            )
        )  # fmt: skip

    def linear(source: Source) -> LinUCB:
        return LinUCB(
            arms, d, horizon=horizon, budget=Budget._derived(epsilon, delta), source=source,
            context_bound=math.sqrt(d), reward_bound=first.reward_bound,
        )  # fmt: skip

    def published(factor: float, shared: bool, leak: bool) -> Callable[[], FloatArray]:
        def play() -> FloatArray:
            return not_private_regrets(
                worlds, epsilon=epsilon, factor=factor, shared=shared, leak=leak,
                generator=np.random.default_rng([horizon, arms, first_seed]),
            )  # fmt: skip

        return play

    def uniform() -> FloatArray:
        return np.array([world.means.max(axis=1) - world.means.mean(axis=1) for world in worlds])

    larger = _LARGER * epsilon
    everyone: list[tuple[str, bool, Callable[[], FloatArray]]] = [
        ("uniformly random", True, uniform),
        ("LinUCB", True, learners(linear)),
        ("HDB", True, high_dimensional(Budget._derived(epsilon, delta))),
        (f"HDB, epsilon = {larger:g}", False, high_dimensional(Budget._derived(larger, delta))),
        ("HDB, no noise", False, high_dimensional(None)),
    ]
    for shared in (False, True):
        suffix = ", shared gradient" if shared else ""
        everyone += [
            (
                f"published, not private, noise x {factor:g}{suffix}",
                False,
                published(factor, shared, True),
            )
            for factor in factors
        ]
    worst = max(factors, default=1.0)
    everyone.append(
        (
            f"published without the leak, noise x {worst:g}",
            False,
            published(worst, False, False),
        )
    )
    return everyone
