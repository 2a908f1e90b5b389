"""Bugs in what is added up: sensitivities, clips, and the noise of running sums."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.descriptions import unchecked

import dpoco
from dpoco import _core
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

from .checks import difference_attack, drift, likelihood, replay
from .kit import Bug, maker, other, remade


def sum_of(state: bytes, dimension: int) -> Any:
    """Return the sum without noise in the state of a continual sum: the words after its round."""
    return np.frombuffer(state, dtype="<f8")[2 : 2 + dimension].copy()


T = 8
GAUSS = dpoco.Budget.from_dict({"epsilon": 3.0, "delta": 1e-2})  # without a warning
SUM = maker(ContinualSum, 2, horizon=T, budget=GAUSS, method="tree", bound=1.0)
ROWS = np.tile([1.0, 0.0], (T, 1))
OTHER = ROWS.copy()
OTHER[2] *= -1.0
BIG = [(2, [-50.0, 0.0]), (0, [np.nan, 1.0]), (4, [0.0, 0.0]), (5, [1.0, 1.0]), (7, [-1.0, 0.0])]


@functools.cache
def the_sum() -> Any:
    return SimpleNamespace(make=SUM, stream=ROWS, neighbour=OTHER, pairs=BIG, trials=300)


# ---- noise for too small a sensitivity -----------------------------------------------------------


def scaled(factor: float) -> Any:
    def plant(subject: Any) -> Any:
        scale = subject.make.honest().plan.mechanism.scale
        return remade(scale=factor * scale)(subject)

    return plant


def clipper(bound: float, norm: float) -> Any:
    """An engine that admits more than the parameters say."""

    def engine(learner: Any, source: Any) -> Any:
        total = learner._mechanism
        vector = replace(total.summand, bound=bound * total.summand.bound, norm=norm)
        return _core.ContinualSum(
            unchecked(total, summand=vector), {"key": source._key, "stream": 1}
        )

    return remade(engine=engine)


CUBE = maker(ContinualSum, 8, horizon=T, budget=GAUSS, method="tree", bound=1.0)
CORNERS = np.zeros((T, 8))
CORNERS[2] = 1.0
OPPOSITE = -CORNERS


@functools.cache
def the_cube_sum() -> Any:
    return SimpleNamespace(
        make=CUBE, stream=CORNERS, neighbour=OPPOSITE, pairs=[(2, OPPOSITE[2])], trials=300
    )


class ClippedAfterwards(ContinualSum):
    """Adds what it is given, and clips what it releases."""

    def push(self, value: Any) -> Any:
        released = np.asarray(super().push(value))
        far = np.linalg.norm(released) / (self._mechanism.summand.bound * (self.round + 8))
        return released / max(1.0, far)


# ---- noise that is no fresh noise ----------------------------------------------------------------


class SameNoise(ContinualSum):
    """Adds the noise of the first round again in all later ones."""

    first: Any = None

    def push(self, value: Any) -> Any:
        released = super().push(value)
        total = sum_of(self._engine.state(), self._mechanism.summand.size)
        if self.first is None:
            self.first = released - total
        return total + self.first


class Restarted(ContinualSum):
    """Builds its engine anew in every round, from the same key and stream."""

    def push(self, value: Any) -> Any:
        total = sum_of(self._engine.state(), self._mechanism.summand.size)
        self._engine = SUM(Source.seeded(77))._engine
        return super().push(np.asarray(value) + total)


class NodeNoise(ContinualSum):
    """A tree written out, whose nodes draw noise from `place`."""

    nodes: dict[Any, Any]
    draws: np.random.Generator

    def place(self, level: int, index: int) -> Any:
        raise NotImplementedError

    def push(self, value: Any) -> Any:
        super().push(value)  # the engine keeps the sum and counts the draws
        total = sum_of(self._engine.state(), self._mechanism.summand.size)
        t, noise = self.round, np.zeros(self._mechanism.summand.size)
        for level in range(t.bit_length()):
            if t >> level & 1:
                node = self.place(level, (t >> level) - 1)
                if node not in self.nodes:
                    self.nodes[node] = self.draws.normal(
                        scale=self._mechanism.scale, size=noise.size
                    )
                noise = noise + self.nodes[node]
        return total + noise


class PerNode(NodeNoise):
    """The tree as it should be."""

    def place(self, level: int, index: int) -> Any:
        return level, index


class PerBlock(NodeNoise):
    """One draw for a block of four leaves, whatever the nodes inside it."""

    def place(self, level: int, index: int) -> Any:
        return (index << level) // 4


class PerLevel(NodeNoise):
    """One draw for a level: a node takes the noise of the one before it."""

    def place(self, level: int, index: int) -> Any:
        return level


def noded(kind: Any, subject: Any) -> Any:
    def make(source: Any) -> Any:
        learner = CUBE(source, kind)
        learner.nodes, learner.draws = {}, np.random.default_rng(source.words(4))
        return learner

    def run(dimension: int, seed: int) -> Any:
        learner = make(Source.seeded(seed))
        return np.array([learner.push(np.zeros(dimension)) for _ in range(T)])

    return other(subject, make=make, run=run, dimension=8)


@functools.cache
def the_tree() -> Any:
    return noded(PerNode, the_cube_sum())


# ---- rounding ------------------------------------------------------------------------------------

LONG = maker(
    ContinualSum, 1, horizon=4096, budget=GAUSS, method="tree", numerics="float", bound=1.0
)


def exact_sums(rows: Any) -> Any:
    learner = LONG(Source.seeded(0))
    learner.run(rows)
    return sum_of(learner._engine.state(), 1)


def single_precision(rows: Any) -> Any:
    return np.cumsum(rows.astype(np.float32), axis=0)[-1].astype(float)


@functools.cache
def the_rounded_sum() -> Any:
    rows = np.random.default_rng(3).uniform(size=(4096, 1))
    return SimpleNamespace(total=exact_sums, rows=rows, bound=1.0)


# ---- data that decide over the noise -------------------------------------------------------------


class Averaging(ContinualSum):
    """Adds half of the vector of the round before, too."""

    before: Any = 0.0

    def push(self, value: Any) -> Any:
        row = np.nan_to_num(np.asarray(value, dtype=float))
        row = row / max(1.0, float(np.linalg.norm(row)))
        mixed, self.before = 0.5 * (row + self.before), row
        return super().push(mixed)


BUGS = [
    Bug("half-the-sensitivity", the_sum, scaled(0.5), (replay, likelihood)),
    Bug("clip-in-the-wrong-norm", the_cube_sum, clipper(1.0, math.inf), (replay, likelihood)),
    Bug("no-clip", the_sum, clipper(1e6, 2.0), (replay,)),
    Bug(
        "clip-after-noise", the_sum,
        lambda subject: clipper(1e6, 2.0)(remade(ClippedAfterwards)(subject)), (replay,),
    ),
    Bug("noise-of-the-first-round-for-ever", the_sum, remade(SameNoise), (likelihood,)),
    Bug("stream-restarted-every-round", the_sum, remade(Restarted), (replay, likelihood)),
    Bug(
        "noise-once-per-block", the_tree, functools.partial(noded, PerBlock),
        (likelihood, difference_attack),
    ),
    Bug(
        "noise-reused-by-the-next-node", the_tree, functools.partial(noded, PerLevel),
        (likelihood, difference_attack),
    ),
    Bug(
        "drift-of-rounded-sums", the_rounded_sum,
        lambda subject: other(subject, total=single_precision), (drift,),
    ),
    Bug("record-kept-for-a-second-round", the_sum, remade(Averaging), (replay,)),
]  # fmt: skip
