"""The standard cases of all learners and mechanisms.

Learners of records: the first record is at the bound, with one sign or the other, all others are
silent. Learners of experts and Lipschitz losses: the first record is the only one that prefers
anybody, so that every later decision is about this record and noise alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco.accounting import Budget
from dpoco.audit._exercises import calibrated_once
from dpoco.audit._family import FloatArray, Make, Rounds, parts_of
from dpoco.domains import Box, LpBall
from dpoco.losses import HuberLoss, LinearLoss
from dpoco.random import Source

_LONG = 10_000  # the published floor under the weights of a short stream hides a lot
_ALL = ("tight", "corrected", "paper")
_PRINTED = ("tight", "paper")
_PREFERS = "the first losses prefer the first expert, or all others; all later losses are 0"
_PULLS = "the first gradient is as long as allowed, along the first axis, or its negative; others 0"


@dataclass(frozen=True)
class Asked:
    """What a case is wanted for."""

    cls: type
    budget: Budget
    horizon: int
    dimension: int | None
    calibration: str

    @property
    def size(self) -> int:
        """The dimension of a kind that has one."""
        assert self.dimension is not None
        return self.dimension

    def maker(self, *arguments: Any, **options: Any) -> Make:
        """Return ``Source -> learner`` for this horizon and budget."""
        length = "records" if hasattr(self.cls, "fit") else "horizon"
        chosen = {} if self.calibration == "tight" else {"calibration": self.calibration}
        options = {length: self.horizon, **chosen, **options}
        return calibrated_once(self.cls, *arguments, budget=self.budget, **options)


@dataclass(frozen=True)
class Problem:
    """A learner and neighbouring streams."""

    make: Make
    stream: Any
    replacements: tuple[tuple[Any, ...], ...]
    about: str
    trials: int = 2000
    own_neighbour: Any = None

    @property
    def neighbour(self) -> Any:
        """The stream with its first replacement, unless the pair is another one."""
        if self.own_neighbour is not None:
            return self.own_neighbour
        at, *record = self.replacements[0]
        return Rounds(parts_of(self.stream)).replaced(at, record).stream


@dataclass(frozen=True)
class Kind:
    """A learner that has a standard case.

    Attributes
    ----------
    name : str
        Of the learner.
    build : callable
        ``Asked -> Problem``.
    horizon, dimension : int
        Defaults; a dimension of None cannot be chosen.
    delta : float
        Default: 0 for learners that are purely private.
    calibrations : tuple of str
        What the class knows.
    shortest, smallest : int
        Limits of horizon and dimension.
    """

    name: str
    build: Callable[[Asked], Problem]
    horizon: int
    dimension: int | None
    delta: float = 1e-3
    calibrations: tuple[str, ...] = ("tight",)
    shortest: int = 3
    smallest: int = 1
    largest: int | None = None


def _axis(size: int) -> FloatArray:
    axis: FloatArray = np.zeros(size)
    axis[0] = 1.0
    return axis


# ---- experts and Lipschitz losses ----------------------------------------------------------------


def _losses(asked: Asked, *, halves: bool = False) -> tuple[FloatArray, Any]:
    """Return losses, and the replacements of the first record; the worst one first."""
    rounds, n = asked.horizon, asked.size
    first = np.arange(n) % 2.0 if halves else 1.0 - _axis(n)
    stream = np.zeros((rounds, n))
    stream[0] = first
    unlimited = np.where(first > 0.0, -1e6, 1e6)
    last = rounds - 2
    return stream, ((0, 1.0 - first), (0, unlimited), (last, first if last else 0.0 * first))


def _prefix_hedge(asked: Asked) -> Problem:
    # A large learning rate plays the leader of the noisy sums: it tells most. In l2 two halves are
    # farthest apart.
    make = asked.maker(asked.size, learning_rate=1e3)
    about = "the first losses prefer every second expert, or the others; all later losses are 0"
    return Problem(make, *_losses(asked, halves=True), about)


def _experts(**options: Any) -> Callable[[Asked], Problem]:
    def build(asked: Asked) -> Problem:
        return Problem(asked.maker(asked.size, **options), *_losses(asked), _PREFERS)

    return build


def _batch_share(asked: Asked) -> Problem:
    options = {"horizon": _LONG, "batch": 1, "learning_rate": 100.0}
    make = asked.maker(asked.size, **options)
    about = f"{_PREFERS}; the learner is made for {_LONG} rounds and stopped early"
    return Problem(make, *_losses(asked), about)


def _lipschitz(asked: Asked) -> Problem:
    points = asked.size
    domain = Box([0.0], [1.0])
    make = asked.maker(domain, lipschitz=1.0, resolution=points, learning_rate=1e3)
    slope = np.linspace(0.0, 1.0, points)
    zigzag = np.arange(points) % 2.0 / max(points - 1, 1)
    stream = np.zeros((asked.horizon, points))
    stream[0] = slope
    return Problem(
        make, stream, ((0, -slope), (0, zigzag), (asked.horizon - 2, zigzag)),
        "the first loss rises as fast as it may, or falls; all later losses are 0",
    )  # fmt: skip


# ---- records ------------------------------------------------------------------------------------


def _gradients(asked: Asked, last: int = 2) -> tuple[FloatArray, Any]:
    """Return gradients, and replacements of the first and of the last that is used."""
    axis = _axis(asked.size)
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = axis
    return stream, ((0, -axis), (0, 1e6 * np.roll(axis, -1)), (asked.horizon - last, axis))


def _leader(asked: Asked) -> Problem:
    make = asked.maker(LpBall(asked.size, 2.0), LinearLoss(1.0))
    return Problem(make, *_gradients(asked), _PULLS)


def _polyhedral(asked: Asked) -> Problem:
    # Gradients of l-infinity norm 1: all coordinates move.
    ones = np.ones(asked.size)
    signs = 1.0 - 2.0 * (np.arange(asked.size) % 2)
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = signs
    make = asked.maker(LpBall(asked.size, 1.0), LinearLoss(1.0), batch=1)
    return Problem(
        make, stream, ((0, -signs), (0, 1e6 * ones * [-1, *[1] * (asked.size - 1)])),
        "all entries of the first gradient are at the bound, or their negatives; others 0",
    )  # fmt: skip


def _coupled(**tight: Any) -> Callable[[Asked], Problem]:
    def build(asked: Asked) -> Problem:
        domain = Box([-1.0], [1.0]) if asked.size == 1 else LpBall(asked.size, 2.0)
        own = tight if asked.calibration == "tight" else {}
        make = asked.maker(domain, LinearLoss(1.0), **own)
        return Problem(make, *_gradients(asked), _PULLS, trials=1000)

    return build


def _batch(**options: Any) -> Callable[[Asked], Problem]:
    def build(asked: Asked) -> Problem:
        rows, labels = np.zeros((asked.horizon, asked.size)), np.zeros(asked.horizon)
        rows[0, 0], labels[0] = 1.0, 1.0
        axis = rows[0].copy()
        # Huber's loss has its steepest slope at the starting point, in both directions.
        loss = HuberLoss(1.0, 1.0, threshold=0.5)
        return Problem(
            asked.maker(LpBall(asked.size, 2.0), loss, **options), (rows, labels),
            ((0, axis, -1.0), (0, 1e6 * axis, 1e6), (1, -axis, 1.0)),
            "the first record pulls along the first axis as hard as it may, or pushes; others are "
            "silent",
        )  # fmt: skip

    return build


# ---- mechanisms and bandits ---------------------------------------------------------------------


def _continual_sum(asked: Asked) -> Problem:
    return Problem(
        asked.maker(asked.size), *_gradients(asked, last=1),
        "the first vector is as long as allowed, or its negative; others are 0",
    )  # fmt: skip


def _noisy_max(asked: Asked) -> Problem:
    # One record moves the scores of all queries: the first candidate's up, all others' down.
    moved = 2.0 * _axis(asked.size) - 1.0
    stream = np.zeros((asked.horizon, asked.size))
    return Problem(
        asked.maker(asked.size), stream,
        ((0, moved), (asked.horizon - 1, -moved)),
        "all scores are 0, or the first is at its upper and all others at their lower limit, in "
        "every query",
        own_neighbour=stream + moved,
    )  # fmt: skip


def _above_threshold(asked: Asked) -> Problem:
    make = asked.maker()
    # One record may move all queries, and the last the other way: silence says that the threshold
    # is high, and an alarm after it that the noise of its own query is.
    p = make(Source.seeded(0)).parameters
    stream = np.full(asked.horizon, p.margin + p.query_noise_scale)
    stream[-1] = p.margin - 2.0 * p.query_noise_scale
    moved = np.full(asked.horizon, -1.0)
    moved[-1] = 1.0
    return Problem(
        make, stream,
        ((0, stream[0] + 1.0), (0, stream[0] - 1.0), (asked.horizon - 1, stream[-1] + 1.0)),
        "an alarm at the last query, where it is unlikely, after silence where that is; or all "
        "queries but the last are lower by the sensitivity, and the last is higher",
        own_neighbour=stream + moved,
    )  # fmt: skip


def _linucb(asked: Asked) -> Problem:
    arms = 2
    contexts, rewards = np.zeros((asked.horizon, asked.size)), np.zeros((asked.horizon, arms))
    contexts[:, 0], rewards[0] = 1.0, 1.0
    axis = contexts[0].copy()
    make = asked.maker(arms, asked.size, batch=1, exploration=0.0)
    return Problem(
        make, (contexts, rewards),
        ((0, axis, -np.ones(arms)), (0, np.roll(axis, 1), np.ones(arms)),
         (asked.horizon - 2, axis, np.ones(arms))),
        "the first user rewards every arm, or punishes it; all others see the same context and "
        "return nothing",
        trials=800,
    )  # fmt: skip


def _high_dimensional(asked: Asked) -> Problem:
    arms = 2
    contexts, rewards = np.zeros((asked.horizon, asked.size)), np.zeros((asked.horizon, arms))
    contexts[0], rewards[0] = 1.0, 1.0
    contexts[1:, 0] = 1.0
    first = contexts[0].copy()
    return Problem(
        asked.maker(arms, LpBall(asked.size, 1.0), batch=1),
        (contexts, rewards),
        ((0, first, -np.ones(arms)), (asked.horizon - 2, first, np.ones(arms))),
        "the first user rewards every arm, or punishes it; all others return nothing",
    )  # fmt: skip


CASES = (
    Kind("prefix-hedge", _prefix_hedge, 4, 4, smallest=2),
    Kind("epoch-selector", _experts(first=0), 6, 10, 0.0, _ALL, smallest=2),
    # Low thresholds: with those that learn, a short stream never raises an alarm.
    Kind("shift-detector", _experts(first=0, threshold_scale=1e-3), 6, 2, 0.0, _ALL, smallest=2),
    # A short stream would be played without coins, with a fresh draw in every round.
    Kind("oblivious-tracker", _experts(switches=1, forced_switch=0.2), 6, 2, 0.0, smallest=2),
    Kind("batch-share", _batch_share, 2, 10, 0.0, _PRINTED, 2, 2),
    Kind("lipschitz", _lipschitz, 4, 3, 1e-3, _PRINTED, smallest=2),
    Kind("tree-frank-wolfe", _leader, 6, 2, calibrations=_ALL),
    Kind("polyhedral-frank-wolfe", _polyhedral, 6, 2, 1e-3, _ALL),
    Kind("noisy-ftrl", _leader, 6, 2),
    Kind("ctrl", _coupled(coupling="scheduled", block=3), 12, 1, 1e-3, _ALL),
    Kind("comw", _coupled(coupling="scheduled"), 64, 1, 1e-3, _ALL),
    Kind("noisy-frank-wolfe", _batch(), 8, 2, 1e-3, _PRINTED),
    Kind("noisy-sgd", _batch(steps=20), 8, 2, 1e-3, _PRINTED),
    Kind("phased-sgd", _batch(), 8, 2, 1e-3, _PRINTED),
    Kind("localized-mirror-descent", _batch(steps=10), 8, 2),
    Kind("linucb", _linucb, 4, 2),
    Kind("high-dimensional-bandit", _high_dimensional, 4, 2, calibrations=_ALL),
    Kind("continual-sum", _continual_sum, 6, 2),
    Kind("noisy-max", _noisy_max, 2, 10, 0.0, shortest=1, smallest=2),
    Kind("above-threshold", _above_threshold, 4, None, 0.0),
)
