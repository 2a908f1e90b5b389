"""Bugs of leaders on sums: bounds of records, decisions that bypass the noise or look ahead."""

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

from .checks import black_box, likelihood, replay
from .kit import Bug, maker, other, remade
from .sums import GAUSS, OTHER, ROWS, T

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
SWAPPED = LOSSES.copy()
SWAPPED[1] = 1.0 - LOSSES[1]


@functools.cache
def the_tree_leader() -> Any:
    return SimpleNamespace(make=TREE, stream=(FEATURES, LABELS), pairs=RECORDS)


@functools.cache
def the_gradient_leader() -> Any:
    return SimpleNamespace(
        make=FTRL, stream=ROWS, neighbour=OTHER, pairs=[(2, [-60.0, 0.0]), (4, [1.0, 0.5])]
    )


@functools.cache
def the_hedge() -> Any:
    return SimpleNamespace(
        make=HEDGE,
        stream=LOSSES,
        neighbour=SWAPPED,
        pairs=[(1, SWAPPED[1]), (4, [1.0, 1, 0, 1])],
        trials=250,
    )


def transcripts(make: Any) -> Any:
    """Decisions of many runs."""

    def run(losses: Any, count: int, source: Any) -> Any:
        decisions = np.empty((count, len(losses)), dtype=np.int64)
        for transcript in decisions:
            learner = make(source)
            for t, row in enumerate(losses):
                transcript[t] = learner.decide()
                learner.observe(row)
        return decisions

    return run


def heard(subject: Any) -> Any:
    """The same for an attacker who sees decisions only."""
    first = other(subject, stream=LOSSES[:3], neighbour=SWAPPED[:3])
    claim = HEDGE.honest().guarantee
    return other(first, run=transcripts(subject.make), epsilon=claim.epsilon, delta=claim.delta,
                 runs=1200)  # fmt: skip


@functools.cache
def the_heard_hedge() -> Any:
    return heard(the_hedge())


def engine_of(make: Any) -> Any:
    return remade(engine=lambda learner, source: make(source)._engine)


class Overt(PrefixHedge):
    """Plays the best expert of the sums without noise."""

    def decide(self) -> Any:
        super().decide()
        return int(np.argmin(self._engine.nonprivate_sum()[: self.experts]))


class OvertWeights(PrefixHedge):
    """Shows the weights of the sums without noise."""

    @property
    def weights(self) -> Any:
        scores = self.plan.tuning.learning_rate * np.array(self._engine.nonprivate_sum())
        powers = np.exp(scores.min() - scores)
        return powers / powers.sum()


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
        "decisions-without-noise", the_heard_hedge, lambda subject: heard(remade(Overt)(subject)),
        (likelihood, black_box),
    ),
    Bug("non-private-weights", the_hedge, remade(OvertWeights), (likelihood,)),
    Bug(
        "draws-counted-by-the-data", the_hedge,
        lambda subject: other(subject, make=planted(subject.make, counting(counted_by_data))),
        (replay,),
    ),
    Bug("decision-after-the-record", the_hedge, foreseeing, (replay,)),
]  # fmt: skip
