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


BUGS = [
    Bug("exponential-mechanism-without-the-two", the_maximum, halved, (replay, likelihood)),
    Bug(
        "monotone-scale-for-moves-both-ways", the_counter,
        lambda subject: other(subject, run=picks(COUNTS)), (black_box,),
    ),
    Bug("argmin-for-argmax", the_useful_maximum, remade(largest=False), (utility,)),
    Bug("threshold-kept-after-its-alarm", the_threshold, remade(alarms=3), (replay,)),
]  # fmt: skip
