"""Families of queries: which question is asked in which round, from public coins only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.local._coins import ADAPTIVE_SLOT, PublicCoins
from dpoco.local._queries import HadamardQuery, LossQuery, ThresholdQuery, hadamard_size

__all__ = ["adaptive_pair", "bisection", "hadamard", "loss", "mean_test", "pair_query", "scheffe"]

FloatArray = NDArray[np.float64]


def bisection(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Compare the mean of a random half of the hypotheses with the mean of the others.

    Coefficients are 1/|A| on A, a uniformly random subset of floor(K/2) hypotheses, and
    -1/(K - |A|) off A. A single hypothesis is asked nothing: its coefficient is 0.
    """
    return _drawn("bisection", seed, round, slot, hypotheses)


def scheffe(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Ask where one random hypothesis exceeds another."""
    return _drawn("scheffe", seed, round, slot, hypotheses)


def mean_test(seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Ask where one random hypothesis exceeds the mean of all."""
    return _drawn("mean_test", seed, round, slot, hypotheses)


def _drawn(family: str, seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    drawn = _core.local_threshold_questions(family, seed, round, 1, 1, hypotheses, slot)
    return ThresholdQuery.of_row(drawn[0])


def hadamard(seed: int, round: int, slot: int, labels: int) -> HadamardQuery:
    """Ask for a random row of the Hadamard matrix of the labels, never the constant one."""
    size = hadamard_size(labels)
    return HadamardQuery(1 + PublicCoins(seed, round, slot).below(size - 1))


def loss(
    seed: int,
    round: int,
    slot: int,
    hypotheses: int,
    mixing: float,
    midpoints: FloatArray | None = None,
    half_ranges: FloatArray | None = None,
) -> LossQuery:
    """Ask for the loss of one random hypothesis.

    Parameters
    ----------
    seed, round, slot : int
        Name the public coins.
    hypotheses : int
        K.
    mixing : float
        In (0, 1].
    midpoints, half_ranges : arrays of shape (K,), optional
        Exact ranges of the losses; by default the worst case, 0 and D/2.
    """
    from dpoco.local._losses import loss_diameter

    index = PublicCoins(seed, round, slot).below(hypotheses)
    if midpoints is None or half_ranges is None:
        half = max(0.5 * loss_diameter(hypotheses, mixing), 1e-12)
        return LossQuery(index, 0.0, half, mixing)
    return LossQuery(index, float(midpoints[index]), float(half_ranges[index]), mixing)


def pair_query(hypotheses: int, first: int, second: int) -> ThresholdQuery:
    """Ask where hypothesis `first` exceeds hypothesis `second`."""
    coefficients = np.zeros(hypotheses)
    coefficients[first], coefficients[second] = 1.0, -1.0
    return ThresholdQuery(coefficients)


def adaptive_pair(seed: int, round: int, slot: int, hypotheses: int) -> tuple[int, int] | None:
    """Return the random pair that replaces an adaptive query one time in ten; else None.

    The coins of slot 1000 + slot: the first draw decides, the next ones choose the pair.
    """
    if hypotheses < 2:
        return None
    coins = PublicCoins(seed, round, ADAPTIVE_SLOT + slot)
    return coins.pair(hypotheses) if coins.below(10) == 0 else None
