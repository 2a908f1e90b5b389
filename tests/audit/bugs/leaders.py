"""Bugs of leaders on sums: bounds of records, draws and decisions that heed the record."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.audit.faults import counting, planted

from dpoco.domains import LpBall
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL

from .checks import replay
from .kit import Bug, maker, other, remade
from .sums import GAUSS, ROWS, T

BALL = LpBall(2, 2.0)
FEATURES = np.tile([9.0, 0.0], (T, 1))
LABELS = np.full(T, 9.0)
RECORDS = [(0, [-9.0, 0.0], 9.0), (3, [9.0, 0.0], -9.0), (5, [-9.0, 0.0], 1e3)]
OPTIONS = {"horizon": T, "budget": GAUSS}
TREE = maker(TreeFrankWolfe, BALL, SquaredLoss(1.0, 1.0), **OPTIONS)
LOUD = maker(TreeFrankWolfe, BALL, SquaredLoss(1.0, 9.0), **OPTIONS)
WIDE = maker(NoisyFTRL, BALL, LinearLoss(math.sqrt(2.0)), **OPTIONS)
FTRL = maker(NoisyFTRL, BALL, LinearLoss(1.0), **OPTIONS)
UNCLIPPED = maker(NoisyFTRL, BALL, LinearLoss(100.0), **OPTIONS)
HEDGE = maker(PrefixHedge, 4, **OPTIONS)
LOSSES = np.tile([1.0, 0.0, 0.0, 0.0], (T, 1))
LOSSES[1] = [1.0, 1.0, 0.0, 0.0]


@functools.cache
def the_tree_leader() -> Any:
    return SimpleNamespace(make=TREE, stream=(FEATURES, LABELS), pairs=RECORDS)


@functools.cache
def the_gradient_leader() -> Any:
    return SimpleNamespace(make=FTRL, stream=ROWS, pairs=[(2, [-60.0, 0.0]), (4, [1.0, 0.5])])


@functools.cache
def the_hedge() -> Any:
    return SimpleNamespace(
        make=HEDGE, stream=LOSSES, pairs=[(1, 1.0 - LOSSES[1]), (4, [1.0, 1, 0, 1])]
    )


def engine_of(make: Any) -> Any:
    return remade(engine=lambda learner, source: make(source)._engine)


def counted_by_data(record: Any) -> bool:
    return bool(np.max(record) > 0.9 and record[-1] > 0.5)


class Foresighted(PrefixHedge):
    """Decides by the losses of the round to come."""

    coming: Any = None

    def decide(self) -> Any:
        super().decide()
        return int(np.argmin(self.coming[min(self.round, len(self.coming) - 1)]))


def foreseeing(subject: Any) -> Any:
    plays = iter(range(100))

    def make(source: Any) -> Any:
        learner, k = subject.make(source, Foresighted), next(plays)
        learner.coming = subject.stream.copy()
        if k >= 2:  # the stream is played twice, then its neighbours in order
            at, row = subject.pairs[k - 2]
            learner.coming[at] = row
        return learner

    return other(subject, make=make)


BUGS = [
    Bug("forgotten-label-bound", the_tree_leader, engine_of(LOUD), (replay,)),
    Bug("forgotten-bias", the_gradient_leader, engine_of(WIDE), (replay,)),
    Bug("gradient-without-clip", the_gradient_leader, engine_of(UNCLIPPED), (replay,)),
    Bug(
        "draws-counted-by-the-data", the_hedge,
        lambda subject: other(subject, make=planted(subject.make, counting(counted_by_data))),
        (replay,),
    ),
    Bug("decision-after-the-record", the_hedge, foreseeing, (replay,)),
]  # fmt: skip
