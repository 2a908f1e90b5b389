"""Standard cases of the learners of experts and of Lipschitz losses.

The first record is the only one that prefers anybody: it prefers the first expert on one stream,
and all others on the other. So every later decision is about this record and noise alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._standard_base import Asked, Kind, Problem, calibrated_once
from dpoco.domains import Box
from dpoco.experts import BatchShare, EpochSelector, ObliviousTracker, PrefixHedge, ShiftDetector
from dpoco.oco import LipschitzLearner

__all__ = ["EXPERTS"]

FloatArray = NDArray[np.float64]

_ABOUT = "the first losses prefer the first expert, or all others; all later losses are 0"
_LONG = 10_000  # the published floor under the weights of a short stream hides a lot


def _streams(rounds: int, experts: int, halves: bool = False) -> tuple[FloatArray, Any]:
    """Return losses, and the replacements of the first record; the worst one first."""
    if halves:
        first = np.arange(experts) % 2.0
    else:
        first = np.ones(experts)
        first[0] = 0.0
    stream = np.zeros((rounds, experts))
    stream[0] = first
    unlimited = np.where(first > 0.0, -1e6, 1e6)
    last = rounds - 2
    return stream, ((0, 1.0 - first), (0, unlimited), (last, first if last else 0.0 * first))


def _prefix_hedge(asked: Asked) -> Problem:
    # In l2 two halves are farthest apart.
    stream, replacements = _streams(asked.horizon, asked.size, halves=True)
    # A large learning rate plays the leader of the noisy sums: it tells most.
    make = calibrated_once(
        PrefixHedge, asked.size, horizon=asked.horizon, budget=asked.budget, learning_rate=1e3
    )
    about = "the first losses prefer every second expert, or the others; all later losses are 0"
    return Problem(make, stream, replacements, about)


def _epoch_selector(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    make = calibrated_once(
        EpochSelector, asked.size, horizon=asked.horizon, budget=asked.budget, first=0,
        calibration=asked.calibration,
    )  # fmt: skip
    return Problem(make, stream, replacements, _ABOUT)


def _shift_detector(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    # Low thresholds: with those that learn, a short stream never raises an alarm.
    make = calibrated_once(
        ShiftDetector, asked.size, horizon=asked.horizon, budget=asked.budget, first=0,
        calibration=asked.calibration, threshold_scale=1e-3,
    )  # fmt: skip
    return Problem(make, stream, replacements, _ABOUT)


def _oblivious_tracker(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    # A short stream would be played without coins, with a fresh draw in every round.
    make = calibrated_once(
        ObliviousTracker, asked.size, horizon=asked.horizon, budget=asked.budget, switches=1,
        forced_switch=0.2,
    )  # fmt: skip
    return Problem(make, stream, replacements, _ABOUT)


def _batch_share(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    make = calibrated_once(
        BatchShare, asked.size, horizon=max(asked.horizon, _LONG), budget=asked.budget, batch=1,
        learning_rate=100.0, calibration=asked.calibration,
    )  # fmt: skip
    about = f"{_ABOUT}; the learner is made for {_LONG} rounds and stopped early"
    return Problem(make, stream, replacements, about)


def _lipschitz(asked: Asked) -> Problem:
    points = asked.size
    make = calibrated_once(
        LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, horizon=asked.horizon,
        budget=asked.budget, resolution=points, learning_rate=1e3, calibration=asked.calibration,
    )  # fmt: skip
    slope = np.linspace(0.0, 1.0, points)
    zigzag = np.arange(points) % 2.0 / max(points - 1, 1)
    stream = np.zeros((asked.horizon, points))
    stream[0] = slope
    return Problem(
        make, stream, ((0, -slope), (0, zigzag), (asked.horizon - 2, zigzag)),
        "the first loss rises as fast as it may, or falls; all later losses are 0",
    )  # fmt: skip


_PRINTED = ("tight", "paper")
EXPERTS = (
    Kind("prefix-hedge", "PrefixHedge", _prefix_hedge, 4, 4, smallest=2),
    Kind(
        "epoch-selector", "EpochSelector", _epoch_selector, 6, 10, delta=0.0, smallest=2,
        calibrations=("tight", "corrected", "paper"),
    ),
    Kind(
        "shift-detector", "ShiftDetector", _shift_detector, 6, 2, delta=0.0, smallest=2,
        calibrations=("tight", "corrected", "paper"),
    ),
    Kind("oblivious-tracker", "ObliviousTracker", _oblivious_tracker, 6, 2, 0.0, smallest=2),
    Kind("batch-share", "BatchShare", _batch_share, 2, 10, 0.0, _PRINTED, 2, 2),
    Kind("lipschitz-learner", "LipschitzLearner", _lipschitz, 4, 3, 1e-3, _PRINTED, smallest=2),
)  # fmt: skip
