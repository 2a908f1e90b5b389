"""Ranges of the losses of a context, kept for as long as memory allows; draws of one loss."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.local._coins import PublicCoins
from dpoco.local._losses import loss_ranges

__all__ = ["KeptRanges", "adaptive_shares", "drawn_loss"]

FloatArray = NDArray[np.float64]

KEPT_BYTES = 2**26  # of ranges, and of arrays that nothing else keeps alive
# Share of the uniform distribution in adaptive sampling.
_EXPLORATION = 0.1


class KeptRanges:
    """Mid-points and half ranges by context and mixing; what was asked for longest ago goes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, float], tuple[Any, ...]] = OrderedDict()
        self.held = 0  # bytes

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, matrix: FloatArray, mixing: float) -> tuple[FloatArray, FloatArray]:
        """Return `loss_ranges` of a context's array. O(K M) the first time, then O(1)."""
        key = (id(matrix), mixing)
        found = self._kept.get(key)  # the array is kept, too: nothing else has its identity
        if found is None:
            found = (*loss_ranges(matrix, mixing), matrix)
            self._kept[key] = found
            self.held += _bytes_of(found)
            while self.held > KEPT_BYTES and len(self._kept) > 1:
                self.held -= _bytes_of(self._kept.popitem(last=False)[1])
        else:
            self._kept.move_to_end(key)
        return found[0], found[1]


def _bytes_of(kept: tuple[Any, ...]) -> int:
    """Return what an entry holds in memory; the array of a table's context is part of the table."""
    middle, half_range, matrix = kept
    own = matrix.nbytes if matrix.base is None else 0
    return int(middle.nbytes + half_range.nbytes + own)


def adaptive_shares(weights: FloatArray, half_range: FloatArray) -> FloatArray:
    """Return q_j = 0.9 R_j sqrt(w_j (1 - w_j)) / sum + 0.1 / K."""
    importance = half_range * np.sqrt(weights * np.maximum(1.0 - weights, 0.0))
    total = 0.0
    for value in importance.tolist():
        total += value
    count = weights.size
    if not total > 0.0:
        return np.full(count, 1.0 / count)
    shares: FloatArray = (1.0 - _EXPLORATION) * importance / total + _EXPLORATION / count
    return shares


def drawn_loss(coins: PublicCoins, shares: FloatArray) -> tuple[int, float]:
    """Return a loss drawn by public coins with given shares, and its probability.

    The chances are integers over 2^53, so that the probability is the one drawn with.
    """
    sums = np.cumsum(shares)  # one addition after the other
    edges = np.rint(sums / sums[-1] * 2.0**53).astype(np.int64)
    edges[-1] = 2**53
    index = int(np.searchsorted(edges, coins.below(2**53), side="right"))
    lower = int(edges[index - 1]) if index else 0
    return index, (int(edges[index]) - lower) / 2.0**53
