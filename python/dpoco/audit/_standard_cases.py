"""The standard cases of all learners and mechanisms.

Learners of records: the first record is at the bound, with one sign or the other, all others are
silent. Learners of experts and Lipschitz losses: the first record is the only one that prefers
anybody, so that every later decision is about this record and noise alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._standard_base import Asked, Kind, Problem, calibrated_once
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import Box, LpBall
from dpoco.experts import BatchShare, EpochSelector, ObliviousTracker, PrefixHedge, ShiftDetector
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    PolyhedralFrankWolfe,
    TreeFrankWolfe,
)
from dpoco.losses import HuberLoss, LinearLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
)
from dpoco.random import Source

__all__ = ["CASES"]

FloatArray = NDArray[np.float64]

_LONG = 10_000  # the published floor under the weights of a short stream hides a lot
_ALL = ("tight", "corrected", "paper")
_PRINTED = ("tight", "paper")
_PREFERS = "the first losses prefer the first expert, or all others; all later losses are 0"
_PULLS = "the first gradient is as long as allowed, along the first axis, or its negative; others 0"


def _axis(size: int) -> FloatArray:
    axis: FloatArray = np.zeros(size)
    axis[0] = 1.0
    return axis


# ---- experts and Lipschitz losses ----------------------------------------------------------------


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
    return Problem(make, stream, replacements, _PREFERS)


def _shift_detector(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    # Low thresholds: with those that learn, a short stream never raises an alarm.
    make = calibrated_once(
        ShiftDetector, asked.size, horizon=asked.horizon, budget=asked.budget, first=0,
        calibration=asked.calibration, threshold_scale=1e-3,
    )  # fmt: skip
    return Problem(make, stream, replacements, _PREFERS)


def _oblivious_tracker(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    # A short stream would be played without coins, with a fresh draw in every round.
    make = calibrated_once(
        ObliviousTracker, asked.size, horizon=asked.horizon, budget=asked.budget, switches=1,
        forced_switch=0.2,
    )  # fmt: skip
    return Problem(make, stream, replacements, _PREFERS)


def _batch_share(asked: Asked) -> Problem:
    stream, replacements = _streams(asked.horizon, asked.size)
    make = calibrated_once(
        BatchShare, asked.size, horizon=max(asked.horizon, _LONG), budget=asked.budget, batch=1,
        learning_rate=100.0, calibration=asked.calibration,
    )  # fmt: skip
    about = f"{_PREFERS}; the learner is made for {_LONG} rounds and stopped early"
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


# ---- records ------------------------------------------------------------------------------------


def _gradients(asked: Asked) -> tuple[FloatArray, Any]:
    """Return gradients, and replacements of the first and of the last that is used."""
    axis = _axis(asked.size)
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = axis
    return stream, ((0, -axis), (0, 1e6 * np.roll(axis, -1)), (asked.horizon - 2, axis))


def _tree(asked: Asked) -> Problem:
    stream, replacements = _gradients(asked)
    make = calibrated_once(
        TreeFrankWolfe, LpBall(asked.size, 2.0), LinearLoss(1.0), horizon=asked.horizon,
        budget=asked.budget, calibration=asked.calibration,
    )  # fmt: skip
    return Problem(make, stream, replacements, _PULLS)


def _ftrl(asked: Asked) -> Problem:
    stream, replacements = _gradients(asked)
    make = calibrated_once(
        NoisyFTRL, LpBall(asked.size, 2.0), LinearLoss(1.0), horizon=asked.horizon,
        budget=asked.budget,
    )  # fmt: skip
    return Problem(make, stream, replacements, _PULLS)


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
        return Problem(make, stream, replacements, _PULLS, trials=1000)

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


# ---- mechanisms and bandits ---------------------------------------------------------------------


def _continual_sum(asked: Asked) -> Problem:
    axis = _axis(asked.size)
    stream = np.zeros((asked.horizon, asked.size))
    stream[0] = axis
    make = calibrated_once(ContinualSum, asked.size, horizon=asked.horizon, budget=asked.budget)
    return Problem(
        make, stream, ((0, -axis), (0, 1e6 * np.roll(axis, -1)), (asked.horizon - 1, axis)),
        "the first vector is as long as allowed, or its negative; others are 0",
    )  # fmt: skip


def _noisy_max(asked: Asked) -> Problem:
    # One record moves the scores of all queries: the first candidate's up, all others' down.
    moved = -np.ones(asked.size)
    moved[0] = 1.0
    stream = np.zeros((asked.horizon, asked.size))
    make = calibrated_once(NoisyMax, asked.size, horizon=asked.horizon, budget=asked.budget)
    return Problem(
        make, stream, ((0, moved), (asked.horizon - 1, -moved)),
        "all scores are 0, or the first is at its upper and all others at their lower limit, in "
        "every query",
        own_neighbour=stream + moved,
    )  # fmt: skip


def _above_threshold(asked: Asked) -> Problem:
    make = calibrated_once(AboveThreshold, horizon=asked.horizon, budget=asked.budget)
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
    contexts = np.zeros((asked.horizon, asked.size))
    contexts[:, 0] = 1.0
    rewards = np.zeros((asked.horizon, arms))
    rewards[0] = 1.0
    axis = contexts[0].copy()
    make = calibrated_once(
        LinUCB, arms, asked.size, horizon=asked.horizon, budget=asked.budget, batch=1,
        exploration=0.0,
    )  # fmt: skip
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
    contexts = np.zeros((asked.horizon, asked.size))
    rewards = np.zeros((asked.horizon, arms))
    contexts[0], rewards[0] = 1.0, 1.0
    contexts[1:, 0] = 1.0
    make = calibrated_once(
        HighDimensionalBandit, arms, LpBall(asked.size, 1.0), horizon=asked.horizon,
        budget=asked.budget, batch=1, calibration=asked.calibration,
    )  # fmt: skip
    first = contexts[0].copy()
    return Problem(
        make, (contexts, rewards),
        ((0, first, -np.ones(arms)), (asked.horizon - 2, first, np.ones(arms))),
        "the first user rewards every arm, or punishes it; all others return nothing",
    )  # fmt: skip


CASES = (
    Kind("prefix-hedge", _prefix_hedge, 4, 4, smallest=2),
    Kind("epoch-selector", _epoch_selector, 6, 10, delta=0.0, smallest=2,
        calibrations=_ALL,
    ),
    Kind("shift-detector", _shift_detector, 6, 2, delta=0.0, smallest=2,
        calibrations=_ALL,
    ),
    Kind("oblivious-tracker", _oblivious_tracker, 6, 2, 0.0, smallest=2),
    Kind("batch-share", _batch_share, 2, 10, 0.0, _PRINTED, 2, 2),
    Kind("lipschitz", _lipschitz, 4, 3, 1e-3, _PRINTED, smallest=2),
    Kind("tree-frank-wolfe", _tree, 6, 2, calibrations=_ALL),
    Kind("polyhedral-frank-wolfe", _polyhedral, 6, 2, 1e-3, _ALL),
    Kind("noisy-ftrl", _ftrl, 6, 2),
    Kind("ctrl",
        _coupled(CoupledRegularizedLeader, coupling="scheduled", block=3), 12, 1, 1e-3, _ALL,
    ),
    Kind("comw",
        _coupled(ContinuousMultiplicativeWeights, coupling="scheduled"), 64, 1, 1e-3, _ALL,
    ),
    Kind("noisy-frank-wolfe", _batch(NoisyFrankWolfe), 8, 2, 1e-3, _PRINTED),
    Kind("noisy-sgd", _batch(NoisySGD, steps=20), 8, 2, 1e-3, _PRINTED),
    Kind("phased-sgd", _batch(PhasedSGD), 8, 2, 1e-3, _PRINTED),
    Kind("localized-mirror-descent",
        _batch(LocalizedMirrorDescent, steps=10), 8, 2,
    ),
    Kind("linucb", _linucb, 4, 2),
    Kind("high-dimensional-bandit", _high_dimensional, 4, 2,
        calibrations=_ALL,
    ),
    Kind("continual-sum", _continual_sum, 6, 2),
    Kind("noisy-max", _noisy_max, 2, 10, delta=0.0, shortest=1, smallest=2),
    Kind("above-threshold", _above_threshold, 4, None, delta=0.0),
)  # fmt: skip
