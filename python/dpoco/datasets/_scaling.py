"""Scaling by public constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array

__all__ = ["PublicScaling"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PublicScaling:
    """Map each column's declared range to [-1, 1], saturate, and append a constant.

    The ranges are public: a sensor's data sheet, a form's limits. A minimum or a mean of the
    records themselves is private and would void every guarantee computed downstream.

    Parameters
    ----------
    low, high : float or array_like of shape (d,)
        Declared range of the columns, ``low < high``. Values outside saturate at -1 or 1.
    intercept : bool, default True
        Append a column of ones.

    Raises
    ------
    ValueError, TypeError
        If a bound is not finite or the bounds cross.
    """

    low: Any = -1.0
    high: Any = 1.0
    intercept: bool = True

    def __post_init__(self) -> None:
        low, high = self._bounds()
        if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError("the declared range must be finite, with low < high")

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        low, high = (
            float_array(name, np.atleast_1d(value), (None,))
            for name, value in (("low", self.low), ("high", self.high))
        )
        if low.shape != high.shape and 1 not in (low.size, high.size):
            raise ValueError(f"low and high differ in shape: {low.shape} and {high.shape}")
        return low, high

    def apply(self, features: Any) -> FloatArray:
        """Return the scaled records.

        Parameters
        ----------
        features : array_like of shape (T, d)
            Raw records; NaN entries stay NaN (a missing record is a zero record).

        Returns
        -------
        ndarray
            Shape (T, d), or (T, d + 1) with the intercept; entries in [-1, 1].
        """
        rows = float_array("features", features, (None, None))
        low, high = self._bounds()
        width = max(low.size, high.size)
        if width not in (1, rows.shape[1]):
            raise ValueError(f"the declared range has {width} columns; got {rows.shape[1]}")
        # Divided before it is subtracted: a range near the largest double must not overflow.
        half = high / 2.0 - low / 2.0
        scaled = np.clip(rows / half - (low / 2.0 + high / 2.0) / half, -1.0, 1.0)
        if self.intercept:
            scaled = np.column_stack([scaled, np.ones(rows.shape[0])])
        return np.ascontiguousarray(scaled)

    def outside(self, features: Any) -> NDArray[np.bool_]:
        """Return which entries saturate, in the shape of `apply`. **Not private**."""
        rows = float_array("features", features, (None, None))
        low, high = self._bounds()
        outside = (rows < low) | (rows > high)
        if self.intercept:
            outside = np.column_stack([outside, np.zeros(len(rows), dtype=bool)])
        return outside

    def describe(self) -> str:
        """One line for reports."""
        low, high = self._bounds()
        ranges = sorted({(float(a), float(b)) for a, b in np.broadcast(low, high)})
        text = ", ".join(f"[{a:g}, {b:g}]" for a, b in ranges)
        tail = ", plus a constant column" if self.intercept else ""
        return f"declared range {text} mapped to [-1, 1], saturating{tail}"
