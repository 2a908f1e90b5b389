"""Many small selections, and one that can be relied upon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._divergences import total_variations
from dpoco._validation import float_array

__all__ = ["MedianSelection", "median_select"]

FloatArray = NDArray[np.float64]


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
