"""Learners of every family with records, and what they release without a journal."""

from __future__ import annotations

import sqlite3
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.journal import Journal, SqliteStore
from dpoco.losses import LinearLoss, QuadraticLoss, SquaredLoss
from dpoco.random import Source

ROUNDS = 24
BUDGET = dpoco.Budget(1.0, 1e-6)
KEY = bytes(range(32))


@dataclass(frozen=True)
class Case:
    name: str
    make: Any  # seed -> learner
    batch: tuple[Any, ...]  # arrays of ROUNDS records

    def part(self, start, stop):
        return tuple(array[start:stop] for array in self.batch)

    def reference(self, seed=1):
        """Releases of an uninterrupted run, by the learner's own methods."""
        learner = self.make(seed)
        if self.name == "NoisyMax":
            return np.array([learner.select(row) for row in self.batch[0]])
        if self.name == "AboveThreshold":
            return np.array([learner.test(*row) for row in zip(*self.batch, strict=True)])
        out = learner.run(*self.batch)
        for name in ("decisions", "actions"):
            if hasattr(out, name):
                return getattr(out, name)
        return out

    def changed(self, place):
        """The batch with the last bit of one number changed."""
        arrays = [np.array(array, dtype=float) for array in self.batch]
        place = (place, *(0 for _ in arrays[0].shape[1:]))
        arrays[0][place] = np.nextafter(arrays[0][place], np.inf)
        return tuple(arrays)


def rng():
    return np.random.default_rng(7)


def cases():
    r = rng()
    features, labels = r.normal(size=(ROUNDS, 3)) / 3.0, r.uniform(-1.0, 1.0, ROUNDS)
    losses = r.uniform(size=(ROUNDS, 4))
    matrices = np.stack([np.eye(2) * s for s in r.uniform(0.1, 0.5, ROUNDS)])
    ball, square = LpBall(3), SquaredLoss(1.0, 1.0)
    common = {"horizon": ROUNDS, "budget": BUDGET}
    pure = {"horizon": ROUNDS, "budget": dpoco.Budget(1.0, 0.0)}

    def learner(cls, *problem, **options):
        @cache
        def plan():
            return cls(*problem, **options).plan

        def make(seed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # few rounds are too few to learn from
                return cls(*problem, plan=plan(), source=_source(seed), **options)

        return make

    fw, oco, experts = dpoco.frank_wolfe, dpoco.oco, dpoco.experts
    quadratic = QuadraticLoss(lipschitz=1.0, smoothness=1.0)
    rows = (
        ("TreeFrankWolfe", learner(fw.TreeFrankWolfe, ball, square, **common), (features, labels)),
        ("NoisyFTRL", learner(oco.NoisyFTRL, ball, LinearLoss(1.0), **common), (features,)),
        (
            "CoupledRegularizedLeader",
            learner(oco.CoupledRegularizedLeader, LpBall(2), quadratic, **common),
            (matrices, features[:, :2]),
        ),
        ("PrefixHedge", learner(experts.PrefixHedge, 4, **common), (losses,)),
        ("EpochSelector", learner(experts.EpochSelector, 4, **pure), (losses,)),
        (
            "LipschitzLearner",
            learner(oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=4, **common),
            (losses,),
        ),
        (
            "LinUCB",
            learner(
                dpoco.bandits.LinUCB, 4, 3, **{"context_bound": 1.0, "reward_bound": 1.0, **common}
            ),
            (features, losses),
        ),
        (
            "ContinualSum",
            learner(dpoco.mechanisms.ContinualSum, 3, **{"bound": 1.0, **common}),
            (features,),
        ),
        (
            "NoisyMax",
            learner(dpoco.mechanisms.NoisyMax, 4, **{"sensitivity": 1.0, **pure}),
            (losses,),
        ),
        (
            "AboveThreshold",
            learner(dpoco.mechanisms.AboveThreshold, alarms=ROUNDS, **{"sensitivity": 1.0, **pure}),
            (1000.0 * labels, np.zeros(ROUNDS)),
        ),
    )
    return [Case(*row) for row in rows]


def _source(seed):
    return None if seed is None else Source.seeded(seed)


TOTAL = dpoco.Budget(1.0, 1e-6)
PART = dpoco.Budget(0.6, 1e-6)  # two fit, three do not
VALUES = np.random.default_rng(5).uniform(-0.5, 0.5, size=(ROUNDS, 2))


def sums(seed=None, budget=PART, **options):
    """Running sums of `VALUES`."""
    source = _source(seed)
    return dpoco.mechanisms.ContinualSum(
        2, horizon=ROUNDS, budget=budget, source=source, **{"bound": 1.0, **options}
    )


class QuickStore(SqliteStore):
    """Without waiting for the disk: a killed process loses nothing that it handed to the system."""

    def _connect(self):
        super()._connect()
        assert isinstance(self._connection, sqlite3.Connection)
        self._connection.execute("PRAGMA synchronous = OFF")


FIRST = cases()[0]


@cache
def expected():
    """Return the releases of an uninterrupted run of the first case."""
    return FIRST.reference()


def played(stream, start=0, stop=ROUNDS):
    """Rounds of the first case."""
    return stream.process(*FIRST.part(start, stop), first_round=start)


def opened(path, **options):
    """The journal of a directory, through `QuickStore`."""
    return Journal(QuickStore(path / "journal.db"), **options)
