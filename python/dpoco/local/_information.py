"""How much reports tell: which channel tells more, and how many tell hypotheses apart.

Mutual information decides over the channel. How well a report tells two hypotheses apart is the
Bhattacharyya coefficient BC of its laws; gaps ``1 - BC`` are computed from differences of the laws,
so that those near 0 are relatively exact; gaps that rounding alone may explain are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._divergences import total_variations
from dpoco._validation import float_array

__all__ = [
    "ChannelChoice",
    "MedianSelection",
    "bit_gap",
    "contraction",
    "information_of",
    "median_select",
    "signal",
    "subset_gap",
]

FloatArray = NDArray[np.float64]

# Above it, the law of a subset is replaced by that of one of its labels: less information.
_LARGEST_LISTED_LAW = 5000
_ROUNDING = 2.0**-52


def contraction(labels: int, epsilon: float) -> float:
    """Return c of randomized response, ``g = c f + (1 - c) / M``."""
    odds = _core.local_exp(epsilon) - 1.0
    return float(odds / (odds + labels))


def signal(labels: int, size: int, epsilon: float) -> float:
    """Return kappa: the small-signal information of a subset is kappa/2 times the spread."""
    odds = _core.local_exp(epsilon) - 1.0
    share = size / labels
    gain = odds / (1.0 + odds * share)
    return float(gain * gain * size * (labels - size) / (labels * (labels - 1.0)))


class ChannelChoice:
    """Chooses the channel of a round; what depends on the context alone is computed once.

    Reports have `epsilon`, subsets `size` labels; None where there are no subsets to choose.
    """

    def __init__(self, epsilon: float, size: int | None) -> None:
        self._epsilon, self._size = epsilon, size
        self._matrix: FloatArray | None = None
        self._entropies: FloatArray = np.empty(0)
        self._squares: FloatArray = np.empty(0)  # only where subsets of several labels count
        self._uniform: tuple[float, float] | None = None

    def choose(
        self,
        matrix: FloatArray,
        weights: FloatArray | None,
        means: Sequence[FloatArray],
        contrast: float,
    ) -> int | None:
        """Return the size of the subset to ask for, or None for bits.

        `weights` is what the server may decide with, None for uniform; `means`, each of shape (K,),
        are those of the round's queries, one a bit, and `contrast` is c0 of each bit.
        """
        count, size = matrix.shape[0], self._size
        if size is None or count == 1:
            return None
        used = np.full(count, 1.0 / count) if weights is None else weights
        bits = sum(_core.local_bit_information(used, own, contrast) for own in means)
        response, subset = self.informations(matrix, weights, size)
        best, chosen = bits, None
        if response > best:
            best, chosen = response, 1
        if size >= 2 and subset > best:
            chosen = size
        return chosen

    def informations(
        self, matrix: FloatArray, weights: FloatArray | None, size: int
    ) -> tuple[float, float]:
        """Return what randomized response tells, and subsets of `size` for small signals; nats."""
        count, labels = matrix.shape
        c = contraction(labels, self._epsilon)
        if matrix is not self._matrix:
            self._matrix, self._uniform = matrix, None
            self._entropies = _core.local_row_statistics(matrix, c)
            if size >= 2:
                self._squares = _core.local_row_statistics(matrix, None)
        if weights is None and self._uniform is not None:
            return self._uniform
        used = np.full(count, 1.0 / count) if weights is None else weights
        response = float(_core.local_response_information(used, matrix, self._entropies, c))
        subset = 0.0
        if size >= 2:
            spread = float(_core.local_weighted_spread(used, matrix, self._squares))
            subset = 0.5 * signal(labels, size, self._epsilon) * spread
        if weights is None:
            self._uniform = (response, subset)
        return response, subset


def bit_gap(means: FloatArray, contrast: float, labels: int) -> FloatArray:
    """Return 1 - BC of one bit, for all pairs of the K query means, shape (K, K).

    `contrast` is c0 as sampled; means are sums over `labels` terms.
    """
    differences = _without_rounding(means[:, None] - means[None, :], labels)
    ones, zeros = np.sqrt(0.5 * (1.0 + contrast * means)), np.sqrt(0.5 * (1.0 - contrast * means))
    shares = np.add.outer(ones, ones) ** -2.0 + np.add.outer(zeros, zeros) ** -2.0
    gap: FloatArray = 0.125 * (contrast * differences) ** 2 * shares
    return gap


def subset_gap(matrix: FloatArray, size: int, gain: float) -> FloatArray:
    """Return 1 - BC of a subset; where subsets are too many to list, of one label drawn from it.

    The latter is a lower bound: what is made of a report tells no more than the report.
    """
    labels = matrix.shape[1]
    if size > 1 and math.comb(labels, size) <= _LARGEST_LISTED_LAW:
        chosen = np.array(list(combinations(range(labels), size)))
        masses = matrix[:, chosen].sum(axis=2)
        # Rows that sum to 1 only up to rounding have laws that do, too.
        slope = gain / (chosen.shape[0] * (1.0 + gain * size / labels))
        base = slope / gain if gain else 1.0 / chosen.shape[0]
    else:
        # A uniform label of the subset is the label's own with probability inside / d.
        share = (1.0 + gain) * size / labels
        own = share / (share + (labels - size) / labels) / size
        base = (1.0 - own) / (labels - 1)
        masses, slope = matrix, own - base
    roots = np.sqrt(base + slope * masses)
    gap = np.empty((matrix.shape[0], matrix.shape[0]))
    for i, row in enumerate(masses):
        differences = slope * _without_rounding(masses - row, labels)
        gap[i] = 0.5 * ((differences / (roots + roots[i])) ** 2).sum(axis=1)
    return gap


def information_of(gap: FloatArray) -> FloatArray:
    """Return ``-log BC`` of gaps ``1 - BC``, in nats; independent reports add up."""
    information: FloatArray = 0.0 - np.log1p(-gap)  # 0, and never -0
    return information


def _without_rounding(differences: FloatArray, labels: int) -> FloatArray:
    differences[np.abs(differences) <= labels * _ROUNDING] = 0.0
    return differences


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
