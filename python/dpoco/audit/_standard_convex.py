"""Standard cases of the learners of records and losses on convex sets, and of the batch methods.

The first record is at the bound, on one stream with one sign, on the other with the other; all
other records are silent: zero gradients, or labels that are predicted rightly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._standard_base import Asked, Kind, Problem, calibrated_once
from dpoco.domains import Box, LpBall
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    PolyhedralFrankWolfe,
    TreeFrankWolfe,
)
from dpoco.losses import HuberLoss, LinearLoss
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader, NoisyFTRL

__all__ = ["CONVEX"]

FloatArray = NDArray[np.float64]

_ABOUT = "the first gradient is as long as allowed, along the first axis, or its negative; others 0"


def _gradients(asked: Asked) -> tuple[FloatArray, Any]:
    """Return gradients, and replacements of the first and of the last that is used."""
    axis = np.zeros(asked.size)
    axis[0] = 1.0
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = axis
    return stream, ((0, -axis), (0, 1e6 * np.roll(axis, -1)), (asked.horizon - 2, axis))


def _tree(asked: Asked) -> Problem:
    stream, replacements = _gradients(asked)
    make = calibrated_once(
        TreeFrankWolfe, LpBall(asked.size, 2.0), LinearLoss(1.0), horizon=asked.horizon,
        budget=asked.budget, calibration=asked.calibration,
    )  # fmt: skip
    return Problem(make, stream, replacements, _ABOUT)


def _ftrl(asked: Asked) -> Problem:
    stream, replacements = _gradients(asked)
    make = calibrated_once(
        NoisyFTRL, LpBall(asked.size, 2.0), LinearLoss(1.0), horizon=asked.horizon,
        budget=asked.budget,
    )  # fmt: skip
    return Problem(make, stream, replacements, _ABOUT)


def _polyhedral(asked: Asked) -> Problem:
    # Gradients of l-infinity norm 1: all coordinates move.
    ones = np.ones(asked.size)
    signs = 1.0 - 2.0 * (np.arange(asked.size) % 2)
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = signs
    make = calibrated_once(
        PolyhedralFrankWolfe, LpBall(asked.size, 1.0), LinearLoss(1.0), horizon=asked.horizon,
        budget=asked.budget, batch=1, calibration=asked.calibration,
    )  # fmt: skip
    return Problem(
        make, stream, ((0, -signs), (0, 1e6 * ones * [-1, *[1] * (asked.size - 1)])),
        "all entries of the first gradient are at the bound, or their negatives; others 0",
    )  # fmt: skip


def _coupled(cls: type, **own: Any) -> Any:
    def build(asked: Asked) -> Problem:
        stream, replacements = _gradients(asked)
        domain = Box([-1.0], [1.0]) if asked.size == 1 else LpBall(asked.size, 2.0)
        make = calibrated_once(
            cls, domain, LinearLoss(1.0), horizon=asked.horizon, budget=asked.budget,
            calibration=asked.calibration, **(own if asked.calibration == "tight" else {}),
        )  # fmt: skip
        return Problem(make, stream, replacements, _ABOUT, trials=1000)

    return build


def _batch(cls: type, **own: Any) -> Any:
    def build(asked: Asked) -> Problem:
        rows = np.zeros((asked.horizon, asked.size))
        labels = np.zeros(asked.horizon)
        rows[0, 0], labels[0] = 1.0, 1.0
        axis = rows[0].copy()
        # Huber's loss has its steepest slope at the starting point, in both directions.
        make = calibrated_once(
            cls, LpBall(asked.size, 2.0), HuberLoss(1.0, 1.0, threshold=0.5), records=asked.horizon,
            budget=asked.budget, calibration=asked.calibration, **own,
        )  # fmt: skip
        return Problem(
            make, (rows, labels), ((0, axis, -1.0), (0, 1e6 * axis, 1e6), (1, -axis, 1.0)),
            "the first record pulls along the first axis as hard as it may, or pushes; others are "
            "silent",
        )  # fmt: skip

    return build


_ALL = ("tight", "corrected", "paper")
_PRINTED = ("tight", "paper")
CONVEX = (
    Kind("tree-frank-wolfe", "TreeFrankWolfe", _tree, 6, 2, calibrations=_ALL),
    Kind("polyhedral-frank-wolfe", "PolyhedralFrankWolfe", _polyhedral, 6, 2, 1e-3, _ALL),
    Kind("noisy-ftrl", "NoisyFTRL", _ftrl, 6, 2),
    Kind(
        "coupled-regularized-leader", "CoupledRegularizedLeader",
        _coupled(CoupledRegularizedLeader, coupling="scheduled", block=3), 12, 1, 1e-3, _ALL,
    ),
    Kind(
        "continuous-multiplicative-weights", "ContinuousMultiplicativeWeights",
        _coupled(ContinuousMultiplicativeWeights, coupling="scheduled"), 64, 1, 1e-3, _ALL,
    ),
    Kind("noisy-frank-wolfe", "NoisyFrankWolfe", _batch(NoisyFrankWolfe), 8, 2, 1e-3, _PRINTED),
    Kind("noisy-sgd", "NoisySGD", _batch(NoisySGD, steps=20), 8, 2, 1e-3, _PRINTED),
    Kind("phased-sgd", "PhasedSGD", _batch(PhasedSGD), 8, 2, 1e-3, _PRINTED),
    Kind(
        "localized-mirror-descent", "LocalizedMirrorDescent",
        _batch(LocalizedMirrorDescent, steps=10), 8, 2,
    ),
)  # fmt: skip
