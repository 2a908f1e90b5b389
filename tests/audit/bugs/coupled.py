"""Bugs of lazy learners and bandits: coins, forced rounds, windows, zero records."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.audit.faults import counting, planted, shown
from tests.audit.replay_cases import case, find
from tests.audit.test_likelihood_coupled import coupled_case
from tests.bandits.test_high_dimensional_privacy import log_ratio, worlds
from tests.descriptions import changed

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.experts import ObliviousTracker
from dpoco.oco import ContinuousMultiplicativeWeights
from dpoco.random import Source

from .checks import enumeration, likelihood, replay
from .kit import Bug, maker, other, remade

T = 24


@functools.cache
def the_weights() -> Any:
    """A lazy learner whose coins have a window, with the stream and neighbours of the replays."""
    make, stream, pairs = case(find(ContinuousMultiplicativeWeights, keep="density_ratio"))
    return SimpleNamespace(make=make, stream=stream, pairs=pairs)


@functools.cache
def the_dartboard() -> Any:
    """The same with darts."""
    make, stream, pairs = case(find(ContinuousMultiplicativeWeights, keep="dartboard"))
    return SimpleNamespace(make=make, stream=stream, pairs=pairs)


def shrunk(**factors: float) -> Any:
    """Plant: smaller bounds of a coin in the description than the engine keeps."""

    return lambda subject: other(subject, make=planted(subject.make, shown(**factors)))


def slower_promise(factor: float) -> Any:
    """Plant: the guarantee of another learning rate than the engine's."""

    def plant(subject: Any) -> Any:
        def make(source: Any) -> Any:
            learner = subject.make(source)
            rate = factor * learner.plan.mechanism.learning_rate
            promised = changed(learner.plan, learning_rate=rate)
            learner._guarantee = ObliviousTracker._accountant.guarantee(promised)
            return learner

        return other(subject, make=make)

    return plant


def forced(subject: Any) -> Any:
    """Plant: one variate more is drawn after a large record."""
    large = counting(lambda record: bool(np.nan_to_num(record).max() > 0.99))
    return other(subject, make=planted(subject.make, large))


@functools.cache
def the_leader() -> Any:
    """A lazy leader on an interval, whose coins and draws are scored."""
    make, (stream, neighbour) = coupled_case("leader, density ratio")
    return SimpleNamespace(make=make, stream=stream, neighbour=neighbour, trials=500)


def other_coins(subject: Any) -> Any:
    """Plant: the engine's forced switch has another probability than was accounted for."""

    def make(source: Any) -> Any:
        learner = subject.make(source)
        learner._engine = subject.make(source, forced_switch=0.9)._engine
        return learner

    return other(subject, make=make)


TRACKER = maker(ObliviousTracker, 5, horizon=T, switches=2, budget=dpoco.Budget(8.0, 1e-3), batch=2)
LOSSES = np.random.default_rng(4).uniform(size=(T, 5))
PAIRS = [(1, np.arange(5) % 2.0), (13, 1.0 - np.arange(5) % 2)]


@functools.cache
def the_tracker() -> Any:
    return SimpleNamespace(make=TRACKER, stream=LOSSES, pairs=PAIRS)


def faster(factor: float) -> Any:
    def plant(subject: Any) -> Any:
        rate = subject.make.honest().plan.mechanism.learning_rate
        return remade(learning_rate=factor * rate)(subject)

    return plant


# ---- bandits -------------------------------------------------------------------------------------

UCB, BATCHED = (
    maker(
        LinUCB, 2, 3, horizon=T, budget=dpoco.Budget(1.0, 1e-4), batch=batch, context_bound=1.0,
        reward_bound=1.0,
    )
    for batch in (1, 6)
)  # fmt: skip
RNG = np.random.default_rng(4)
CONTEXTS, REWARDS = 0.7 * RNG.normal(size=(T, 3)), RNG.normal(size=(T, 2))
USERS = [(0, [9.0, -9.0, 0.0], [9.0, -9.0]), (8, [0.0, -1.0, 0.0], [1.0, -1.0])]


@functools.cache
def the_bandit() -> Any:
    return SimpleNamespace(make=UCB, stream=(CONTEXTS, REWARDS), pairs=USERS)


class WorstSoFar(LinUCB):
    """Learns from the best reward so far instead of the user's own."""

    best: float = 0.0

    def observe(self, reward: float) -> None:
        self.best = max(self.best, reward)
        super().observe(self.best)


@functools.cache
def the_batched_bandit() -> Any:
    return SimpleNamespace(make=BATCHED, stream=(CONTEXTS, REWARDS), pairs=USERS)


class ExactGap(LinUCB):
    """An arm is out once the exact rewards of the other are far ahead."""

    totals: Any = None
    arm: int = 0

    def decide(self, context: Any) -> int:
        arm = super().decide(context)
        totals = np.zeros(2) if self.totals is None else self.totals
        gone = abs(totals[0] - totals[1]) > 1.0
        self.arm = int(np.argmax(totals)) if gone else arm
        return self.arm

    def observe(self, reward: float) -> None:
        self.totals = np.zeros(2) if self.totals is None else self.totals
        self.totals[self.arm] += np.clip(reward, -1.0, 1.0)
        super().observe(reward)


@functools.cache
def the_arms() -> Any:
    """Two arms, three rounds, all transcripts: the law of what others see."""
    learner = HighDimensionalBandit(
        2, LpBall(1, 1.0), horizon=3, budget=dpoco.Budget(1.5, 0.0), forced_rounds=0, batch=1,
        arm_learner="polyhedral", source=Source.seeded(0), context_bound=1.0, reward_bound=1.0
    )  # fmt: skip

    def worst(**options: Any) -> float:
        laws = worlds(learner, 12, 3, **options)
        return max(log_ratio(pair) for _, pair, _ in laws)

    return SimpleNamespace(worst=worst, claimed=learner.guarantee.epsilon_at(0.0))


def without_zero_records(subject: Any) -> Any:
    return other(subject, worst=lambda: subject.worst(zero_records=False))


BUGS = [
    Bug(
        "window-of-a-coin-forgotten", the_weights, shrunk(high=0.1, low=0.1), (replay,),
    ),
    Bug("range-of-a-dart-forgotten", the_dartboard, shrunk(span=0.1), (replay,)),
    Bug("forced-switch-by-the-data", the_weights, forced, (replay,)),
    Bug("coins-of-another-probability", the_leader, other_coins, (likelihood,)),
    Bug("rate-of-other-coins", the_tracker, slower_promise(0.4), (replay,)),
    Bug("rate-beyond-the-promise", the_tracker, faster(2.5), (replay,)),
    Bug("rewards-that-remember", the_bandit, remade(WorstSoFar), (replay,)),
    Bug("gap-by-the-data", the_batched_bandit, remade(ExactGap), (replay,)),
    Bug("bandit-without-zero-records", the_arms, without_zero_records, (enumeration,)),
]  # fmt: skip
