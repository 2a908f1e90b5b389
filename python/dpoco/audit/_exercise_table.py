"""The exercises of all learners: settings that reach what the pair of a standard case does not."""

from __future__ import annotations

from typing import Any

from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.accounting import Budget
from dpoco.audit._exercises import CHOICES, Exercise
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss


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
    if cls is oco.ContinuousMultiplicativeWeights:
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


def _sums(cls: type) -> tuple[Exercise, ...]:
    return (
        _of(cls, LpBall(_SMALL, 2.0), _SQUARED, batch=2, numerics="float"),
        _of(cls, LpBall(_WIDE, 2.0), _LINEAR, numerics="lattice"),
        _of(cls, LpBall(_WIDE, 2.0), _LOGISTIC, batch=4, numerics="lattice", sum_method="honaker"),
        _of(cls, LpBall(_SMALL, 2.0), _LINEAR, relation="zero_out", sum_method="tree", batch=3),
    )


_LISTED = (
    _of(experts.PrefixHedge, 5, numerics="float", sum_method="toeplitz"),
    _of(experts.PrefixHedge, _WIDE, numerics="lattice"),
    _of(experts.EpochSelector, 5, budget=_PURE),
    _of(experts.EpochSelector, _WIDE, selection="gumbel"),
    _of(experts.EpochSelector, 4, selection="laplace", budget=_PURE),
    # Without an allowance for the selection's noise there are alarms, on either stream.
    *(_of(experts.ShiftDetector, n, budget=_PURE, threshold_scale=1e-2, rounds=23, turns=True,
          windows=windows, changes={"log_selection": None})
      for n, windows in ((3, "tangent"), (_WIDE, "dyadic"))),
    *(_of(experts.ObliviousTracker, n, forced_switch=0.5, **options)
      for n, options in (
          (5, {"switches": 2, "batch": 2, "max_resamples": 1}),
          (_WIDE, {"switches": 2, "batch": 1, "max_resamples": 2}),
          (4, {"switches": 1, "batch": 2, "prior": "at_most", "max_resamples": 1}),
      )),
    _of(experts.BatchShare, 5, batch=2, switches=1, noise="knorm", budget=_PURE),
    _of(experts.BatchShare, _WIDE, batch=2, switches=1, noise="gaussian"),
    _of(experts.BatchShare, 5, batch=3, noise="gaussian"),
    _of(experts.BatchShare, 4, batch=3, switches=1, noise="laplace", budget=_PURE),
    _of(experts.BatchShare, _WIDE, batch=1, switches=1, noise="coordinate_rr", budget=_PURE),
    *(_of(oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=n)
      for n in (5, _WIDE)),
    *_sums(frank_wolfe.TreeFrankWolfe),
    *_sums(oco.NoisyFTRL),
    _of(oco.NoisyFTRL, LpBall(_SMALL, 2.0), _SQUARED, statistics="quadratic"),
    _of(oco.NoisyFTRL, LpBall(6, 2.0), _SQUARED, statistics="quadratic", batch=2),
    _of(frank_wolfe.PolyhedralFrankWolfe, LpBall(_SMALL, 1.0), _SQUARED, batch=2, budget=_RICH),
    *(_of(frank_wolfe.PolyhedralFrankWolfe, domain, _LINEAR, batch=4, selector=selector, rounds=23,
          trials=150)
      for domain, selector in (
          (Box([-1.0] * 2, [1.0] * 2), "laplace"), (Simplex(_WIDE), "gumbel"))),
    *_fits(frank_wolfe.NoisyFrankWolfe),
    *_fits(frank_wolfe.NoisySGD, steps=3, trials=8),
    *_fits(frank_wolfe.PhasedSGD),
    *_fits(frank_wolfe.LocalizedMirrorDescent, steps=4),
    *(each for cls in (oco.CoupledRegularizedLeader, oco.ContinuousMultiplicativeWeights)
      for each in _coupled(cls, *CHOICES[cls]["coupling"])),
    _of(bandits.LinUCB, 2, _SMALL, batch=2, numerics="float"),
    _of(bandits.LinUCB, 3, _WIDE, batch=1, numerics="lattice"),
    *(_of(bandits.HighDimensionalBandit, 2, LpBall(d, 1.0), **options)
      for d, options in (
          (_SMALL, {"batch": 2, "arm_learner": "tree", "forced_rounds": 2}),
          (_WIDE, {"batch": 3, "arm_learner": "polyhedral", "forced_rounds": 3}),
          (_SMALL, {"batch": 1, "arm_learner": "tree", "forced_rounds": 0,
                    "relation": "zero_out"}),
      )),
    _of(mechanisms.ContinualSum, _WIDE, numerics="lattice"),
    _of(mechanisms.ContinualSum, _WIDE, numerics="float", method="honaker"),
    _of(mechanisms.ContinualSum, _SMALL, norm=4.0, noise="generalized_gaussian", method="tree"),
    _of(mechanisms.NoisyMax, 5, budget=_PURE),
    _of(mechanisms.NoisyMax, _WIDE, noise="gumbel", one_directional=True, largest=False),
    _of(mechanisms.AboveThreshold, budget=_CLEAR, alarms=3, scale=4.0, rounds=15),
    _of(mechanisms.AboveThreshold, budget=_PURE, scale=4.0),
)  # fmt: skip

EXERCISES: dict[type, tuple[Exercise, ...]] = {
    cls: tuple(each for each in _LISTED if each.cls is cls)
    for cls in dict.fromkeys(each.cls for each in _LISTED)
}
