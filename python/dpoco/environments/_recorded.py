"""A world of losses that are already there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array
from dpoco.environments._base import Oblivious

__all__ = ["Recorded"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Recorded(Oblivious):
    """Losses that were recorded elsewhere, one row a round.

    Its comparator is the expert with the least total loss.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        In [0, 1]. Copied.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or entries that are not in [0, 1].
    """

    def __init__(self, losses: Any) -> None:
        rows = float_array("losses", losses, (None, None))
        if rows.size == 0:
            raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
        if not np.all((rows >= 0.0) & (rows <= 1.0)):
            raise ValueError("losses must be in [0, 1]")
        super().__init__(rows.shape[1], rows.shape[0], seed=0)
        self._rows = rows.copy()

    def _build(self) -> tuple[FloatArray, IntArray]:
        best = int(np.argmin(self._rows.sum(axis=0)))
        return self._rows, np.full(self.horizon, best, dtype=np.int64)
