"""Exercises: settings that reach what the one hard pair of a standard case does not.

The pair of a case is short, silent and smooth, because that tells most about the claim; code is
wrong elsewhere: in long batches, at records that are not finite, past a cap, in the second block of
a vector. An exercise is a learner in such a setting on a stream of odd records. It is replayed
against neighbours, entered by every way in (`observe`, `run`, a resumed state), and where its law
is known its noise is scored. What no exercise of a learner reached is listed, not passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting import Budget
from dpoco.audit._standard_base import calibrated_once
from dpoco.audit._streams import shapes_of
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import Box, LpBall, Simplex
from dpoco.experts import BatchShare, EpochSelector, ObliviousTracker, PrefixHedge, ShiftDetector
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    PolyhedralFrankWolfe,
    TreeFrankWolfe,
)
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
)
from dpoco.random import Source

__all__ = ["CHOICES", "EXERCISES", "Exercise"]

FloatArray = NDArray[np.float64]
Record = tuple[Any, ...]

# Rounds in which a record is odd, and what it is multiplied by.
_ODD = {2: np.nan, 5: 1e6, 7: np.inf}


_LARGE = Budget(8.0, 1e-3)


@dataclass(frozen=True)
class Exercise:
    """A learner in one setting.

    Attributes
    ----------
    cls : type
        The learner.
    arguments, options : tuple, dict
        Of its constructor, without horizon, budget and source.
    changes : dict
        Of the calibrated parameters: what no option chooses.
    budget : Budget
        Large, so that a short stream shows the law.
    rounds : int
        Of the stream, and the horizon; records of a batch method.
    scale : float
        Size of ordinary records.
    turns : bool
        Whether records pull the other way in the second half.
    odd : bool
        Whether some records are not finite or beyond their bound.
    trials : int
        Runs that are scored. Few do where rounds and entries give many variates each.
    """

    cls: type
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    budget: Budget = _LARGE
    rounds: int = 11
    scale: float = 1.0
    turns: bool = False
    odd: bool = True
    trials: int = 24

    @property
    def settings(self) -> dict[str, Any]:
        """What tells it from the other exercises of its class, in words and numbers."""
        named = {**self.options, **self.changes}
        return {name: x for name, x in named.items() if isinstance(x, (str, int, float))} or {
            "defaults, of size": " ".join(str(x) for x in self.arguments if isinstance(x, int))
        }

    def maker(self) -> Callable[[Source], Any]:
        """Return ``Source -> learner``, calibrated once."""
        length = "records" if hasattr(self.cls, "fit") else "horizon"
        return calibrated_once(
            self.cls, *self.arguments, budget=self.budget, changes=self.changes,
            **{length: self.rounds, **self.options},
        )  # fmt: skip

    def stream(self, learner: Any) -> tuple[FloatArray, ...]:
        """Return records that pull one way, the first two at opposite ends of what is allowed."""
        tape, parts = Source.seeded(1), []
        for k, shape in enumerate(shapes_of(learner)):
            size = (self.rounds, *shape)
            spread = tape.uniform(int(np.prod(size))).reshape(size) - 0.5
            part = self.scale * (0.5 * _signs(shape) + spread)
            if self.turns:
                part[self.rounds // 2 :] *= -1.0
            if not isinstance(learner, AboveThreshold):
                part[0], part[1] = _signs(shape), -np.ones(shape)
            for t, factor in _ODD.items():
                if self.odd and k == 0 and t < self.rounds:
                    part[t].flat[0] = 1.0  # infinity times zero would be no infinity
                    part[t] *= factor
            parts.append(part)
        return tuple(parts)

    def neighbours(self, learner: Any, stream: tuple[FloatArray, ...]) -> list[Record]:
        """Return neighbours, as `replay_audit` takes them."""
        last = self.rounds - 2
        if isinstance(learner, (NoisyMax, AboveThreshold)):
            # Queries about the same data: a record moves each of them by its sensitivity at most.
            rows, by = stream[0], learner.parameters.sensitivity
            moves: list[tuple[int, Any]] = [(t, x) for t in (0, last) for x in (1.0, -1.0)]
            if isinstance(learner, NoisyMax) and not learner.parameters.one_directional:
                moves += [(3, _signs(rows.shape[1:])), (4, -_signs(rows.shape[1:]))]
            return [(t, rows[t] + by * move) for t, move in moves]
        ones = tuple(np.ones(part.shape[1:]) for part in stream)
        signs = tuple(_signs(part.shape[1:]) for part in stream)
        if _relation(learner) == "zero_out":
            empty = [0.0 * one for one in ones]
            return [(0, *empty), (3, *empty), (last, *empty), (4, *(np.nan * one for one in ones))]
        wild = [
            (3, *(np.nan * one for one in ones)),
            (3, *(1e6 * sign for sign in signs)),
            (4, *(np.inf * one for one in ones)),
        ]
        return [
            (0, *(-sign for sign in signs)),
            *([(0, signs[0], *(-one for one in ones[1:]))] if len(stream) > 1 else ()),
            (1, *ones),
            (8, *signs),
            (last, *(-part[last] for part in stream)),
            *(wild if self.odd else ()),
        ]


def _signs(shape: tuple[int, ...]) -> FloatArray:
    signs: FloatArray = np.where(np.arange(int(np.prod(shape))) % 2, -1.0, 1.0).reshape(shape)
    return signs


def _relation(learner: Any) -> str:
    p = learner.parameters
    return str(getattr(getattr(p, "arm", p), "relation", "replace"))


def _of(cls: type, *arguments: Any, **options: Any) -> Exercise:
    """Return an exercise; options of both are told apart by name."""
    own = {name: options.pop(name) for name in list(options) if name in _OWN}
    return Exercise(cls, arguments, options, **own)


_OWN = ("changes", "budget", "rounds", "scale", "turns", "odd", "trials")
_PURE, _CLEAR, _RICH = Budget(8.0, 0.0), Budget(50.0, 0.0), Budget(40.0, 1e-3)
_LINEAR, _SQUARED, _LOGISTIC = LinearLoss(1.0), SquaredLoss(1.0, 1.0), LogisticLoss(1.0)
_SMALL, _WIDE = 3, 18  # dimensions: odd, and even above a block of vector registers


def _coupled(cls: type, *couplings: str) -> tuple[Exercise, ...]:
    # Their laws are known on a line, for records within their bounds.
    return tuple(
        _of(cls, domain, _LINEAR, odd=odd, changes=_coins(cls, coupling))
        for coupling in couplings
        for domain, odd in ((LpBall(1, 2.0), False), (LpBall(_WIDE, 2.0), True))
    )


def _coins(cls: type, coupling: str) -> dict[str, Any]:
    """Return coins and a cap that a few rounds reach, which no calibration would choose."""
    changes: dict[str, Any] = {"coupling": coupling, "block": 2, "max_switches": 2}
    if cls is ContinuousMultiplicativeWeights:
        changes |= {"inverse_temperature": 0.5, "regularization": 8.0}
    if coupling == "scheduled":
        return {**changes, "forced_switch": 1.0}
    changes["forced_switch"] = 0.5
    if coupling == "dartboard":
        return {**changes, "factor_range": 2.0}  # of linear losses on a unit ball
    window = {"clip_high": 0.3, "clip_low": 0.3}
    return {**changes, **window, **({"anchors": 4} if coupling == "anchored" else {})}


def _fits(cls: type, **options: Any) -> tuple[Exercise, ...]:
    return tuple(
        _of(cls, LpBall(d, 2.0), _SQUARED, rounds=rounds, **options)
        for d, rounds in ((_SMALL, 9), (_WIDE, 10))
    )


def _sums(cls: type, *arguments: Any, **options: Any) -> tuple[Exercise, ...]:
    return (
        _of(cls, LpBall(_SMALL, 2.0), _SQUARED, batch=2, numerics="float", **options),
        _of(cls, LpBall(_WIDE, 2.0), _LINEAR, numerics="lattice", **options),
        _of(cls, LpBall(_WIDE, 2.0), _LOGISTIC, batch=4, numerics="lattice", sum_method="honaker"),
        _of(cls, LpBall(_SMALL, 2.0), _LINEAR, relation="zero_out", sum_method="tree", batch=3),
    )


EXERCISES: dict[type, tuple[Exercise, ...]] = {
    PrefixHedge: (
        _of(PrefixHedge, 5, numerics="float", sum_method="toeplitz"),
        _of(PrefixHedge, _WIDE, numerics="lattice"),
    ),
    EpochSelector: (
        _of(EpochSelector, 5, budget=_PURE),
        _of(EpochSelector, _WIDE, selection="gumbel"),
        _of(EpochSelector, 4, selection="laplace", budget=_PURE),
    ),
    # Without an allowance for the selection's noise there are alarms, on either stream.
    ShiftDetector: tuple(
        _of(ShiftDetector, experts, budget=_PURE, threshold_scale=1e-2, rounds=23, turns=True,
            windows=windows, changes={"log_selection": None})
        for experts, windows in ((3, "tangent"), (_WIDE, "dyadic"))
    ),
    ObliviousTracker: (
        _of(ObliviousTracker, 5, switches=2, batch=2, max_resamples=1, forced_switch=0.5),
        _of(ObliviousTracker, _WIDE, switches=2, batch=1, max_resamples=2, forced_switch=0.5),
        _of(ObliviousTracker, 4, switches=1, batch=2, prior="at_most", max_resamples=1,
            forced_switch=0.5),
    ),
    BatchShare: (
        _of(BatchShare, 5, batch=2, switches=1, noise="knorm", budget=_PURE),
        _of(BatchShare, _WIDE, batch=2, switches=1, noise="gaussian"),
        _of(BatchShare, 5, batch=3, noise="gaussian"),
        _of(BatchShare, 4, batch=3, switches=1, noise="laplace", budget=_PURE),
        _of(BatchShare, _WIDE, batch=1, switches=1, noise="coordinate_rr", budget=_PURE),
    ),
    LipschitzLearner: (
        _of(LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=5),
        _of(LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=_WIDE),
    ),
    TreeFrankWolfe: _sums(TreeFrankWolfe),
    NoisyFTRL: (
        *_sums(NoisyFTRL),
        _of(NoisyFTRL, LpBall(_SMALL, 2.0), _SQUARED, statistics="quadratic"),
        _of(NoisyFTRL, LpBall(6, 2.0), _SQUARED, statistics="quadratic", batch=2),
    ),
    PolyhedralFrankWolfe: (
        _of(PolyhedralFrankWolfe, LpBall(_SMALL, 1.0), _SQUARED, batch=2, budget=_RICH),
        _of(PolyhedralFrankWolfe, Box([-1.0] * 2, [1.0] * 2), _LINEAR, batch=4,
            selector="laplace", rounds=23, trials=150),
        _of(PolyhedralFrankWolfe, Simplex(_WIDE), _LINEAR, batch=4, selector="gumbel",
            rounds=23, trials=150),
    ),
    NoisyFrankWolfe: _fits(NoisyFrankWolfe),
    NoisySGD: _fits(NoisySGD, steps=3, trials=8),
    PhasedSGD: _fits(PhasedSGD),
    LocalizedMirrorDescent: _fits(LocalizedMirrorDescent, steps=4),
    CoupledRegularizedLeader: _coupled(CoupledRegularizedLeader, "scheduled", "density_ratio"),
    ContinuousMultiplicativeWeights: _coupled(
        ContinuousMultiplicativeWeights, "scheduled", "density_ratio", "dartboard", "anchored"
    ),
    LinUCB: (
        _of(LinUCB, 2, _SMALL, batch=2, numerics="float"),
        _of(LinUCB, 3, _WIDE, batch=1, numerics="lattice"),
    ),
    HighDimensionalBandit: (
        _of(HighDimensionalBandit, 2, LpBall(_SMALL, 1.0), batch=2, arm_learner="tree",
            forced_rounds=2),
        _of(HighDimensionalBandit, 2, LpBall(_WIDE, 1.0), batch=3, arm_learner="polyhedral",
            forced_rounds=3),
        _of(HighDimensionalBandit, 2, LpBall(_SMALL, 1.0), batch=1, arm_learner="tree",
            forced_rounds=0, relation="zero_out"),
    ),
    ContinualSum: (
        _of(ContinualSum, _WIDE, numerics="lattice"),
        _of(ContinualSum, _WIDE, numerics="float", method="honaker"),
        _of(ContinualSum, _SMALL, norm=4.0, noise="generalized_gaussian", method="tree"),
    ),
    NoisyMax: (
        _of(NoisyMax, 5, budget=_PURE),
        _of(NoisyMax, _WIDE, noise="gumbel", one_directional=True, largest=False),
    ),
    AboveThreshold: (
        _of(AboveThreshold, budget=_CLEAR, alarms=3, scale=4.0, rounds=15),
        _of(AboveThreshold, budget=_PURE, scale=4.0),
    ),
}  # fmt: skip

# Options that choose other code: parameters of a class, and all that they can be.
CHOICES: dict[type, dict[str, tuple[str, ...]]] = {
    BatchShare: {"noise": ("knorm", "gaussian", "laplace", "coordinate_rr")},
    PrefixHedge: {"numerics": ("float", "lattice")},
    EpochSelector: {"selection": ("exponential", "gumbel", "laplace")},
    ObliviousTracker: {"prior": ("share", "at_most")},
    TreeFrankWolfe: {"numerics": ("float", "lattice")},
    NoisyFTRL: {"numerics": ("float", "lattice"), "statistics": ("gradient", "quadratic")},
    PolyhedralFrankWolfe: {"selector": ("gumbel", "laplace")},
    CoupledRegularizedLeader: {"coupling": ("scheduled", "density_ratio")},
    ContinuousMultiplicativeWeights: {
        "coupling": ("scheduled", "density_ratio", "dartboard", "anchored")
    },
    LinUCB: {"numerics": ("float", "lattice")},
    HighDimensionalBandit: {"arm_learner": ("polyhedral", "tree")},
    ContinualSum: {"noise": ("gaussian", "generalized_gaussian")},
    NoisyMax: {"noise": ("exponential", "gumbel")},
}
