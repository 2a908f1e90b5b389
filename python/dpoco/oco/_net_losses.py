"""Losses of many rounds, given as arrays of values on a net or as functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array

__all__ = ["NetLosses"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetLosses:
    """The losses of a run: one array of all values on the net, or a list of single losses."""

    points: FloatArray
    array: FloatArray | None
    each: list[Any]

    @classmethod
    def of(cls, losses: Any, points: FloatArray) -> NetLosses:
        """Return `losses` in one of the two forms; a sequence without a callable is an array."""
        if callable(losses):
            raise TypeError("losses must be one loss a round; got a single callable")
        if not isinstance(losses, np.ndarray) and isinstance(losses, Iterable):
            losses = list(losses)
            if any(callable(loss) for loss in losses):
                return cls(points, None, losses)
            if not losses:
                losses = np.empty((0, len(points)))
        return cls(points, float_array("losses", losses, (None, len(points))), [])

    def __len__(self) -> int:
        return len(self.each) if self.array is None else len(self.array)

    def values(self, part: slice) -> FloatArray:
        """Return the values of some rounds on the net, shape (rounds, N)."""
        if self.array is not None:
            return self.array[part]
        shape = (len(self.points),)
        out = np.empty((len(self.each[part]), *shape))
        for row, loss in zip(out, self.each[part], strict=True):
            # Copied before the next one is asked: a callable may return the same array each time.
            row[:] = float_array("losses", loss(self.points) if callable(loss) else loss, shape)
        return out

    def at(self, decision: FloatArray) -> FloatArray:
        """Return the losses of one decision, shape (T,): 0 where not finite."""
        if decision.shape != self.points.shape[1:]:
            raise ValueError(f"decision must have shape {self.points.shape[1:]}")
        nearest = int(np.argmin(np.sum((self.points - decision) ** 2, axis=1)))
        if self.array is not None:
            values = self.array[:, nearest]
        else:
            values = np.array(
                [
                    float_array("losses", loss(decision[None, :]), (1,))[0]
                    if callable(loss)
                    else float(loss[nearest])
                    for loss in self.each
                ]
            )
        return np.where(np.isfinite(values), values, 0.0)
