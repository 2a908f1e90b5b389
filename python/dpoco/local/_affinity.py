"""How well a report tells hypotheses apart: Bhattacharyya coefficients of its laws.

Gaps ``1 - BC`` are computed from differences of the laws, so that those near 0 are relatively
exact; gaps that rounding alone may explain are 0.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_INFORMATION", "bit_gap", "information_of", "subset_gap"]

FloatArray = NDArray[np.float64]

# Above it, the law of a subset is replaced by that of one of its labels: less information.
_LARGEST_LISTED_LAW = 5000
# Hypotheses whose pairs are looked at.
LARGEST_INFORMATION = 512
_ROUNDING = 2.0**-52


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
