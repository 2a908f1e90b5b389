"""Bugs in what is selected and in what is tested against a threshold."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.mechanisms import AboveThreshold, NoisyMax

from .checks import black_box, likelihood, replay, utility
from .kit import Bug, maker, other, remade

PURE = dpoco.Budget(1.0, 0.0)
ROUNDS = 3
MAX = maker(NoisyMax, 4, horizon=ROUNDS, budget=PURE, noise="exponential", sensitivity=1.0)
COUNTS = maker(
    NoisyMax, 4, horizon=1, budget=PURE, noise="exponential", one_directional=True, sensitivity=1.0
)
EITHER = maker(NoisyMax, 4, horizon=1, budget=PURE, noise="exponential", sensitivity=1.0)
LOUD = maker(
    NoisyMax,
    4,
    horizon=ROUNDS,
    budget=dpoco.Budget(60.0, 0.0),
    noise="exponential",
    sensitivity=1.0,
)
SCORES = np.zeros((ROUNDS, 4))
MOVED = SCORES + np.array([1.0, -1.0, -1.0, -1.0])
ALARM = maker(AboveThreshold, horizon=20, budget=PURE, sensitivity=1.0)
ALARMS = maker(AboveThreshold, horizon=20, budget=PURE, alarms=3, sensitivity=1.0)


@functools.cache
def the_maximum() -> Any:
    return SimpleNamespace(
        make=MAX, stream=SCORES, neighbour=MOVED, pairs=[(1, MOVED[1])], trials=600
    )


def picks(make: Any) -> Any:
    """First selections of many runs, on as many sources."""

    def run(scores: Any, count: int, source: Any) -> Any:
        return np.array([make(source).select(scores) for _ in range(count)])

    return run


@functools.cache
def the_counter() -> Any:
    return SimpleNamespace(
        run=picks(EITHER), stream=np.array([0.0, 1.0, 1.0, 1.0]),
        neighbour=np.array([1.0, 0.0, 0.0, 0.0]), epsilon=1.0, runs=4500,
    )  # fmt: skip


def halved(subject: Any) -> Any:
    return remade(scale=0.5 * MAX.honest().plan.mechanism.scale)(subject)


class Stuck(NoisyMax):
    """Every selection with the noise of the first."""

    start: Any = None

    def select(self, scores: Any) -> int:
        self.start = self.start or self._engine.state()
        words = np.frombuffer(self._engine.state(), dtype="<u8").copy()
        words[-6:] = np.frombuffer(self.start, dtype="<u8")[-6:]  # the source's positions
        self._engine.restore(words.tobytes())
        return super().select(scores)


class Hasty(NoisyMax):
    """Where the best score is far ahead nothing is drawn."""

    def select(self, scores: Any) -> int:
        second, first = np.sort(np.asarray(scores))[-2:]
        return int(np.argmax(scores)) if first - second > 1.5 else super().select(scores)


class Remembering(NoisyMax):
    """Adds the scores of earlier selections."""

    total: Any = 0.0

    def select(self, scores: Any) -> int:
        self.total = self.total + np.asarray(scores)
        return super().select(self.total)


@functools.cache
def the_loud_maximum() -> Any:
    """A clear winner, then its opposite: what counts on has another one."""
    rows = np.zeros((ROUNDS, 4))
    rows[:2, 0] = [1.5, -1.0]
    return other(the_maximum(), make=LOUD, stream=rows, pairs=[(0, [0.5, 0.0, 0.0, 0.0])])


@functools.cache
def the_useful_maximum() -> Any:
    """Selections that have noise of scale 1/10 and a best score 3 ahead."""

    def play(make: Any) -> float:
        rows = np.tile([0.0, 3.0, 0.0, 1.0], (ROUNDS, 1))
        losses = []
        for seed in range(20):
            learner = make(dpoco.random.Source.seeded(seed))
            losses += [3.0 - row[learner.select(row)] for row in rows]
        return float(np.mean(losses))

    return SimpleNamespace(make=LOUD, play=play, blind=2.0)


# ---- thresholds ----------------------------------------------------------------------------------

VALUES = np.full(12, -6.0)


@functools.cache
def the_threshold() -> Any:
    return SimpleNamespace(make=ALARM, stream=VALUES, pairs=[(3, -5.0), (11, -7.0)])


def tests(make: Any) -> Any:
    """When the first alarm comes, in many runs; 0 if never."""

    def run(values: Any, count: int, source: Any) -> Any:
        found = np.zeros(count, dtype=np.int64)
        for i in range(count):
            learner = make(source)
            for t, value in enumerate(values):
                if learner.test(value):
                    found[i] = t + 1
                    break
        return found

    return run


QUIET = np.zeros(12)
QUIET[-1] = 6.0
RISEN = QUIET + 1.0
RISEN[-1] = 5.0


@functools.cache
def the_heard_threshold() -> Any:
    """Queries that move by 1, the silent ones up and the last one down."""
    margin = ALARM.honest().plan.tuning.margin
    return SimpleNamespace(
        make=ALARM, run=tests(ALARM), stream=QUIET + margin, neighbour=RISEN + margin,
        epsilon=1.0, runs=1600,
    )  # fmt: skip


def heard(plant: Any) -> Any:
    def planted(subject: Any) -> Any:
        learner = plant(subject)
        return other(learner, run=tests(learner.make))

    return planted


class FrozenQueries(AboveThreshold):
    """The noise of a query is that of the query before."""

    start: Any = None

    def test(self, value: float, threshold: float = 0.0) -> bool:
        answer = super().test(value, threshold)
        words = np.frombuffer(self._engine.state(), dtype="<u8").copy()
        if self.start is None:
            self.start = words[-6:].copy()
        words[-6:] = self.start
        self._engine.restore(words.tobytes())
        return answer


BUGS = [
    Bug("exponential-mechanism-without-the-two", the_maximum, halved, (replay, likelihood)),
    Bug(
        "monotone-scale-for-moves-both-ways", the_counter,
        lambda subject: other(subject, run=picks(COUNTS)), (black_box,),
    ),
    Bug("selection-noise-reused", the_maximum, remade(Stuck), (replay, likelihood)),
    Bug("early-exit-for-clear-winners", the_maximum, remade(Hasty), (replay,)),
    Bug("scores-that-remember", the_loud_maximum, remade(Remembering), (replay,)),
    Bug("argmin-for-argmax", the_useful_maximum, remade(largest=False), (utility,)),
    Bug(
        "queries-without-noise", the_heard_threshold, heard(remade(query_scale=1e-3)),
        (black_box,),
    ),
    Bug(
        "threshold-noise-too-small", the_threshold,
        lambda subject: remade(
            threshold_scale=0.5 * ALARM.honest().plan.mechanism.threshold_scale
        )(subject),
        (replay,),
    ),
    Bug("query-noise-reused", the_threshold, remade(FrozenQueries), (replay,)),
    Bug("threshold-kept-after-its-alarm", the_threshold, remade(alarms=3), (replay,)),
]  # fmt: skip
