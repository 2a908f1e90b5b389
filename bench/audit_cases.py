"""Rows of the table for black-box audits: independent runs of a whole learner a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measurement import Row, rate

import dpoco
from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.audit import learner_runs
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss
from dpoco.random import Source

GAUSS, PURE = dpoco.Budget(epsilon=1.0, delta=1e-5), dpoco.Budget(epsilon=1.0, delta=0.0)
ROUNDS, DIMENSION, EXPERTS = 3, 2, 4
TARGET = 1e6 / 60.0


def maker(kind: type, *arguments: Any, **options: Any) -> Callable[[Source], Any]:
    p = kind(*arguments, horizon=ROUNDS, budget=GAUSS, **options).plan
    given = {"budget": None, "plan": p, **options}

    def make(source: Source) -> Any:
        return kind(*arguments, horizon=ROUNDS, source=source, **given)

    return make


def pure(kind: type, *arguments: Any, **options: Any) -> Callable[[Source], Any]:
    return lambda source: kind(*arguments, horizon=ROUNDS, budget=PURE, source=source, **options)


def cases() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    gradients = np.tile([1.0, 0.0], (ROUNDS, 1))
    losses = np.tile(np.linspace(0.0, 1.0, EXPERTS), (ROUNDS, 1))
    ball, linear = LpBall(DIMENSION, 2.0), LinearLoss(1.0)
    yield "NoisyMax", pure(mechanisms.NoisyMax, EXPERTS, sensitivity=1.0), losses
    yield "AboveThreshold", pure(mechanisms.AboveThreshold, sensitivity=1.0), np.full(ROUNDS, 10.0)
    yield "ContinualSum", maker(mechanisms.ContinualSum, DIMENSION, bound=1.0), gradients
    yield "TreeFrankWolfe", maker(frank_wolfe.TreeFrankWolfe, ball, linear), gradients
    yield (
        "PolyhedralFrankWolfe",
        maker(frank_wolfe.PolyhedralFrankWolfe, LpBall(DIMENSION, 1.0), linear),
        gradients,
    )
    yield "NoisyFTRL", maker(oco.NoisyFTRL, ball, linear), gradients
    yield (
        "LinUCB",
        maker(bandits.LinUCB, 2, DIMENSION, context_bound=1.0, reward_bound=1.0),
        (gradients, losses[:, :2]),
    )
    yield "EpochSelector", pure(experts.EpochSelector, EXPERTS), losses
    yield "ShiftDetector", pure(experts.ShiftDetector, EXPERTS), losses
    yield "BatchShare", pure(experts.BatchShare, EXPERTS), losses
    yield "PrefixHedge", maker(experts.PrefixHedge, EXPERTS), losses


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    title = f"Black-box audits: runs of {ROUNDS} rounds per second of CPU time"
    for name, make, stream in cases():
        count = 20_000 // shrink
        run = learner_runs(make)
        source = Source.seeded(1)

        def play_case(
            run: Any = run, stream: Any = stream, source: Source = source, count: int = count
        ) -> object:
            return run(stream, count, source)

        yield rate(
            title, name, play_case, units=count, repetitions=min(pairs, 7), target=TARGET,
            unit="runs/s",
        )  # fmt: skip
