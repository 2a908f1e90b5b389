"""Ranges that were found: published numbers, and how they scale records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, float_array
from dpoco.errors import StateError

__all__ = ["FoundRanges"]


@dataclass(frozen=True)
class FoundRanges:
    """Middles and half-widths of the ranges of columns. They are released: free to use and publish.

    Attributes
    ----------
    middle, half_width : tuple of float
        One of each a column, in its units. A half-width of 0 switches a column off: too few of its
        values were present.
    """

    middle: tuple[float, ...]
    half_width: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.middle) != len(self.half_width) or not self.middle:
            raise ValueError("ranges need a middle and a half-width for each column")
        if not all(map(math.isfinite, (*self.middle, *self.half_width))):
            raise ValueError("middles and half-widths must be finite")
        if min(self.half_width) < 0.0:
            raise ValueError("half-widths must be at least 0")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.middle)

    @property
    def parts(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Middles, and half-widths."""
        return self.middle, self.half_width

    @property
    def length(self) -> float:
        """Length of a record, in half-widths, from which on it is shortened: sqrt(d) / 2."""
        return 0.5 * math.sqrt(self.columns)

    def clip(self, records: Any) -> FloatArray:
        """Return records in half-widths from the middles, within [-1, 1], shape (n, d).

        What is missing or not finite, and a column that is off, is 0.
        """
        rows = float_array("records", records, (None, self.columns))
        half = np.array(self.half_width)
        on = half > 0.0
        with np.errstate(all="ignore"):
            scaled = np.clip((rows - np.array(self.middle)) / np.where(on, half, 1.0), -1.0, 1.0)
        return np.where(np.isfinite(rows) & on, scaled, 0.0)

    def scale(self, records: Any) -> FloatArray:
        """Return records in the ball of radius 1: clipped, and divided by `length` or their own.

        Parameters
        ----------
        records : array_like of shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n, d)
        """
        rows = self.clip(records)
        squares = np.zeros(len(rows))
        for column in rows.T:  # in one order on every machine
            squares += column * column
        return np.asarray(rows / np.maximum(np.sqrt(squares), self.length)[:, None])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        return {name: list(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FoundRanges:
        """Return the ranges written by `to_dict`; `StateError` for anything else."""
        if not isinstance(record, Mapping) or {*record} != {"middle", "half_width"}:
            raise StateError("found ranges have a middle and a half_width")
        try:
            return cls(*(tuple(map(float, record[name])) for name in ("middle", "half_width")))
        except (TypeError, ValueError) as error:
            raise StateError("malformed record of ranges") from error
