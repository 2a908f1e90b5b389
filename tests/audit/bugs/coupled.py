"""Bugs of lazy learners and bandits: coins, windows, zero records."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from tests.audit.faults import planted, shown
from tests.audit.replay_cases import case, find
from tests.audit.test_likelihood_coupled import coupled_case
from tests.bandits.test_high_dimensional_privacy import log_ratio, worlds

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall
from dpoco.oco import ContinuousMultiplicativeWeights
from dpoco.random import Source

from .checks import enumeration, likelihood, replay
from .kit import Bug, other


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


# ---- bandits -------------------------------------------------------------------------------------


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
    Bug("coins-of-another-probability", the_leader, other_coins, (likelihood,)),
    Bug("bandit-without-zero-records", the_arms, without_zero_records, (enumeration,)),
]  # fmt: skip
