"""Standard cases of the mechanisms and of the bandits."""

from __future__ import annotations

import numpy as np

from dpoco.audit._standard_base import Asked, Kind, Problem, calibrated_once
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.random import Source

__all__ = ["MECHANISMS"]


def _continual_sum(asked: Asked) -> Problem:
    axis = np.zeros(asked.size)
    axis[0] = 1.0
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


MECHANISMS = (
    Kind("linucb", "LinUCB", _linucb, 4, 2),
    Kind(
        "high-dimensional-bandit", "HighDimensionalBandit", _high_dimensional, 4, 2,
        calibrations=("tight", "corrected", "paper"),
    ),
    Kind("continual-sum", "ContinualSum", _continual_sum, 6, 2),
    Kind("noisy-max", "NoisyMax", _noisy_max, 2, 10, delta=0.0, shortest=1, smallest=2),
    Kind("above-threshold", "AboveThreshold", _above_threshold, 4, None, delta=0.0),
)  # fmt: skip
