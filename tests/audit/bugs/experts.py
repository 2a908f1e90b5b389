"""Bugs of learners of experts: signs, instances."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.descriptions import tuned

import dpoco
from dpoco.experts import EpochSelector, PrefixHedge, ShiftDetector

from .checks import replay, utility
from .kit import Bug, maker, remade

RICH = maker(EpochSelector, 3, horizon=60, budget=dpoco.Budget(50.0, 0.0))
HEDGE = maker(PrefixHedge, 3, horizon=60, budget=dpoco.Budget(50.0, 1e-3))


def played(make: Any) -> float:
    """Mean loss of learners with next to no noise, where one expert loses nothing."""
    rows = np.tile([1.0, 0.0, 1.0], (60, 1))
    plays = [make(dpoco.random.Source.seeded(seed)).run(rows).decisions for seed in range(5)]
    return float(np.mean([rows[np.arange(60), each].mean() for each in plays]))


@functools.cache
def the_useful_epochs() -> Any:
    return SimpleNamespace(make=RICH, play=played, blind=2.0 / 3.0)


@functools.cache
def the_useful_hedge() -> Any:
    return SimpleNamespace(make=HEDGE, play=played, blind=2.0 / 3.0)


class Negated:
    """An engine that is told one minus the losses."""

    def __init__(self, engine: Any) -> None:
        self._inner = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def observe(self, turn: int, losses: Any) -> None:
        self._inner.observe(turn, 1.0 - losses)

    def run(self, losses: Any, *rest: Any) -> Any:
        return self._inner.run(1.0 - losses, *rest)


negated = remade(engine=lambda learner, _: Negated(learner._engine))


def detectors() -> Any:
    budget = dpoco.Budget(400.0, 0.0)
    p = ShiftDetector(2, horizon=40, budget=budget, first=0).plan
    p = tuned(p, threshold=3.0, log_windows=0.0, log_selection=None)

    def make(source: Any, kind: Any = None) -> Any:
        return (kind or ShiftDetector)(2, horizon=40, budget=None, plan=p, source=source)

    return make


SHIFTS = np.tile([1.0, 0.0], (40, 1))
SHIFTS[:12] = [0.0, 0.9]


@functools.cache
def the_detector() -> Any:
    pairs = [(1, [0.2, 0.9]), (2, [0.0, 0.8])]
    return SimpleNamespace(make=detectors(), stream=SHIFTS, pairs=pairs)


class Sticky(ShiftDetector):
    """Hands a record of an instance to the next one, too."""

    kept: Any = None

    def observe(self, losses: Any) -> None:
        row, alarms = np.asarray(losses), self.alarms
        if self.round == 1:
            self.kept = row
        if len(alarms) and self.round == alarms[0] + 1:
            row = 0.5 * (row + self.kept)
        super().observe(row)


BUGS = [
    Bug("sign-of-the-losses", the_useful_hedge, negated, (utility,)),
    Bug("record-handed-to-the-next-instance", the_detector, remade(Sticky), (replay,)),
]
