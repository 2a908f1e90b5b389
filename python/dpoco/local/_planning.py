"""How many users it takes to tell hypotheses apart, and what to make of groups of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._divergences import total_variations
from dpoco._validation import float_array, real_float
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._information import (
    LARGEST_INFORMATION,
    ChannelChoice,
    bit_gap,
    information_of,
    subset_gap,
)
from dpoco.local._questions import all_questions, questions_of
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer
from dpoco.local._settings import Settings, selection_settings

__all__ = ["MedianSelection", "mean_affinity_gap", "median_select", "required_users"]

FloatArray = NDArray[np.float64]

DRAWS = 2000


def required_users(
    hypotheses: Hypotheses | Any,
    *,
    epsilon: float,
    alpha: float = 0.0,
    beta: float = 0.05,
    channel: str = "auto",
    query: str = "auto",
    bits: int | str = 1,
    subset_size: int | None = None,
    max_message_bits: int = 4096,
    seed: int = 0,
) -> float:
    """Return how many reports suffice to select a hypothesis within `alpha` of the true one.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        Without contexts; K at most 512.
    epsilon : float
        Of one report, in (0, 30].
    alpha : float, default 0
        Total variation distance that does no harm, in [0, 1).
    beta : float, default 0.05
        Probability of failure, in (0, 1).
    channel, query, bits, subset_size, max_message_bits
        As for `LocalHypothesisSelector`; every report answers a question of its own.
    seed : int, default 0
        Names the public coins where questions are too many to list.

    Returns
    -------
    int or inf
        The smallest n with ``max_i sum_{j: TV(i, j) > alpha} BC_ij^n <= beta``, ``BC_ij`` the
        Bhattacharyya coefficient of a report's laws under hypotheses i and j, averaged over
        questions: the most likely hypothesis after n reports then is within `alpha` of the truth
        with probability at least ``1 - beta``, if the truth is one of them. 0 if all are within
        `alpha`; inf if no question of the channel tells two of the others apart.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, and for hypotheses with contexts.

    Notes
    -----
    Exact where there are at most 5000 questions; 2000 public draws otherwise. Where subsets are too
    many to list, they count as little as one label drawn from them: n is then an upper bound.
    O(K^2) a question, besides O(K M) for its means. `docs/privacy/local_learning.md`, B5.
    """
    near, failure = real_float("alpha", alpha), real_float("beta", beta)
    if not 0.0 <= near < 1.0:
        raise ValueError(f"alpha must be in [0, 1); got {near!r}")
    if not 0.0 < failure < 1.0:
        raise ValueError(f"beta must be in (0, 1); got {failure!r}")
    known, settings = selection_settings(
        hypotheses,
        epsilon=epsilon,
        channel=channel,
        query=query,
        bits=bits,
        subset_size=subset_size,
        max_message_bits=max_message_bits,
        public_seed=seed,
    )
    if known.count > LARGEST_INFORMATION:
        raise ValueError(f"required_users takes at most {LARGEST_INFORMATION} hypotheses")
    matrix = known.matrix()
    apart = total_variations(matrix) > near
    if not apart.any():
        return 0
    gaps = mean_affinity_gap(matrix, settings)
    if (gaps[apart] <= 0.0).any():
        return math.inf
    # BC_ij as 1 - gap: what is left of tiny gaps stays exact.
    logs = np.where(apart, np.log1p(-np.minimum(gaps, 1.0 - 1e-16)), -np.inf)

    def failing(n: int) -> bool:
        with np.errstate(under="ignore", invalid="ignore"):
            return bool(np.exp(n * logs).sum(axis=1).max() > failure)

    low, high = 0, 1
    while failing(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failing(middle) else (low, middle)
    return high


def mean_affinity_gap(matrix: FloatArray, settings: Settings) -> FloatArray:
    """Return one minus the mean Bhattacharyya coefficient of a report, shape (K, K).

    Means are over the questions of the settings' channel. Relatively exact for gaps near 0; gaps
    that rounding alone may explain are 0.
    """
    count, labels = matrix.shape
    if labels == 1 or count == 1:
        return np.zeros((count, count))

    size = settings.subset_size
    if settings.channel == "subset":
        subset = SubsetRandomizer(labels, size, settings.epsilon)
        return subset_gap(matrix, subset.size, subset.gain)
    choice = ChannelChoice(settings.epsilon, settings.message_bits, size)
    bits = BitRandomizer(settings.epsilon, settings.bits)
    subsets: dict[int, FloatArray] = {}
    total, asked = np.zeros((count, count)), 0
    for means in _question_means(matrix, settings):
        chosen = None
        if settings.channel == "auto":
            chosen = choice.choose(matrix, None, means, bits.contrast)
        if chosen is None:
            told = [information_of(bit_gap(own, bits.contrast, labels)) for own in means]
            total -= np.expm1(-np.sum(told, axis=0))
        else:
            if chosen not in subsets:
                gain = SubsetRandomizer(labels, chosen, settings.epsilon).gain
                subsets[chosen] = subset_gap(matrix, chosen, gain)
            total += subsets[chosen]
        asked += 1
    gaps: FloatArray = total / asked
    return gaps


def _question_means(matrix: FloatArray, settings: Settings) -> Iterator[list[FloatArray]]:
    """Yield the means of equally likely rounds of questions: all there are, or public draws."""
    every = None if settings.bits > 1 else all_questions(settings.query, *matrix.shape)
    if every is not None:
        for question in every:
            yield [question.means(matrix)]
        return
    for number in range(1, DRAWS + 1):
        yield list(
            questions_of(
                settings.query,
                settings.public_seed,
                number,
                settings.bits,
                matrix,
                weights=None,
                mixing=settings.mixing or 1.0,
                exact_range=settings.range == "exact",
            )[1]
        )


@dataclass(frozen=True, eq=False)
class MedianSelection:
    """The row chosen among independent answers.

    Attributes
    ----------
    index : int
        Which row.
    distribution : array of shape (M,)
        The row itself.
    radius : float
        Its median total variation distance to all rows, itself included.
    failure : float
        ``exp(-R / 18)``: probability, at most, with which the row is further than 3 alpha from the
        truth, where each row is within alpha with probability at least 2/3.
    """

    index: int
    distribution: FloatArray
    radius: float
    failure: float


def median_select(distributions: Any) -> MedianSelection:
    """Choose among the answers of disjoint groups of users: failures become exponentially rare.

    Parameters
    ----------
    distributions : array of shape (R, M)
        One distribution a group, e.g. ``selector.prediction().all()`` of each.

    Returns
    -------
    MedianSelection
        The row whose median total variation distance to all rows (the ceil(R/2)-th smallest, its
        own 0 included) is smallest; the first of several.

    Raises
    ------
    ValueError, TypeError
        For what is no matrix, and rows that are no distributions.

    Notes
    -----
    O(R^2 M). If each row is within alpha of the truth with probability at least 2/3, independently,
    the chosen one is within 3 alpha with probability at least ``1 - exp(-R / 18)``: more than half
    of the rows are good but with that probability (Hoeffding); these are within 2 alpha of one
    another, so the chosen median is at most 2 alpha; and one of the ceil(R/2) rows within it is
    good. A group whose expected distance is at most r has alpha = 3 r, by Markov's inequality.
    """
    rows = float_array("distributions", distributions, (None, None))
    if rows.size == 0:
        raise ValueError("distributions must have at least one row and one label")
    if not ((rows >= 0.0).all() and (np.abs(rows.sum(axis=1) - 1.0) <= 1e-6).all()):
        raise ValueError("rows must be distributions: not negative, of sum 1")
    distances = np.sort(total_variations(rows), axis=1)
    medians = distances[:, (rows.shape[0] + 1) // 2 - 1]
    index = int(np.argmin(medians))
    chosen = rows[index].copy()
    return MedianSelection(index, chosen, float(medians[index]), math.exp(-rows.shape[0] / 18.0))
