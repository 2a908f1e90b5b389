"""Bugs of learners of experts: epochs, instances, signs, noise of shares."""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.experts import BatchShare, EpochSelector, PrefixHedge, ShiftDetector

from .checks import likelihood, replay, utility
from .kit import Bug, maker, remade

PURE = dpoco.Budget(1.0, 0.0)
N, T = 3, 12
LOSSES = np.random.default_rng(5).uniform(size=(T, N))
EPOCHS = maker(EpochSelector, N, horizon=T, budget=PURE)
RICH = maker(EpochSelector, N, horizon=60, budget=dpoco.Budget(50.0, 0.0))
HEDGE = maker(PrefixHedge, N, horizon=60, budget=dpoco.Budget(50.0, 1e-3))
FLIPPED = [(2, 1.0 - np.round(LOSSES[2])), (6, np.array([1.0, 0.0, 1.0]))]
FLIPPED.append((4, 1.0 - np.round(LOSSES[4])))


@functools.cache
def the_epochs() -> Any:
    return SimpleNamespace(make=EPOCHS, stream=LOSSES, pairs=FLIPPED)


class Overlapping(EpochSelector):
    """Half of a round's losses are counted in the next round, too."""

    before: Any = 0.0

    def observe(self, losses: Any) -> None:
        row = np.asarray(losses)
        mixed, self.before = 0.5 * (row + self.before), row
        super().observe(mixed)


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
    p = replace(p, threshold=3.0, log_windows=0.0, log_selection=None)

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


class Exact(BatchShare):
    """Plays the best expert of the losses without noise."""

    totals: Any = 0.0

    def decide(self) -> Any:
        played = super().decide()
        return int(np.argmin(self.totals)) if np.ndim(self.totals) else played

    def observe(self, losses: Any) -> None:
        super().observe(losses)
        self.totals = self.totals + np.asarray(losses)


SHARE = maker(BatchShare, 4, horizon=7, budget=PURE, batch=2, learning_rate=0.1)
CORNER = np.tile([1.0, 0.0, 0.0, 0.0], (6, 1))
CORNER[1] = [1.0, 1.0, 0.0, 0.0]
ACROSS = CORNER.copy()
ACROSS[1] = 1.0 - CORNER[1]


@functools.cache
def the_share() -> Any:
    return SimpleNamespace(
        make=SHARE, stream=CORNER, neighbour=ACROSS, pairs=[(1, ACROSS[1])], trials=600
    )


def a_quarter(subject: Any) -> Any:
    scale = SHARE.honest().plan.noise_scale
    return remade(noise_scale=0.25 * scale)(subject)


def quiet(learner: Any, source: Any) -> Any:
    honest = learner._mechanism
    learner._mechanism = replace(honest, scale=0.0)
    try:
        return learner._build_engine({"key": source._key, "stream": 1})
    finally:
        learner._mechanism = honest


BUGS = [
    Bug("epochs-that-overlap", the_epochs, remade(Overlapping), (replay,)),
    Bug("shares-drawn-from-exact-losses", the_share, remade(Exact), (likelihood,)),
    Bug("sign-of-the-losses", the_useful_hedge, negated, (utility,)),
    Bug("record-handed-to-the-next-instance", the_detector, remade(Sticky), (replay,)),
    Bug("share-with-a-quarter-of-the-noise", the_share, a_quarter, (replay, likelihood)),
    Bug("share-without-noise", the_share, remade(engine=quiet), (replay, likelihood)),
]
