"""Records of monitors, as audits have them: a matrix for each interval.

It has a row for each of the `records_per_interval` records that may come from one person: 1 if
there is a record, else 0; the columns that statistics read; and those to group by, as codes
of their public values. NaN is a missing value; any other code that is none stands for all others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.random import Source


def interval_shape(monitor: Any) -> tuple[int, int]:
    """Return the shape of an interval's record."""
    layout = monitor._layout
    width = 1 + len(layout.columns) + len(layout.by)
    return monitor._mechanism.summand.records, width


def present(rows: FloatArray) -> FloatArray:
    """Return the rows that are records: their first number is positive and finite."""
    found = np.asarray(rows, dtype=np.float64)
    return found[(found[:, 0] > 0.0) & np.isfinite(found[:, 0])]


def count_interval(monitor: Any, rows: FloatArray) -> FloatArray:
    """Count the records of an interval, end it, and return the sum that is released."""
    _count(monitor, rows)
    monitor.release()
    total: FloatArray = monitor._past[-1]
    return total


def add_up(monitor: Any, intervals: FloatArray) -> FloatArray:
    """Return what a monitor pushes of each interval, without ending any; shape (n, cells)."""
    totals = np.empty((len(intervals), monitor._mechanism.summand.size))
    for t, rows in enumerate(intervals):
        _count(monitor, rows)
        monitor._flush()
        totals[t] = monitor._part.end(t, monitor._limit)
    return totals


def renew(monitor: Any, source: Source) -> Any:
    """Return an unstarted monitor with the plan and guarantee of another one, on this source."""
    new = monitor._sibling(source._claim())
    new._is_seeded = source.is_seeded
    return new


def _count(monitor: Any, rows: FloatArray) -> None:
    layout = monitor._layout
    names = [(column.name, column.values) for column in layout.columns] + list(layout.by)
    for row in present(rows):
        pairs = zip(names, row[1:].tolist(), strict=True)
        monitor.add({
            name: x if values is None else _value(values, x) for (name, values), x in pairs
        })  # fmt: skip


def _value(values: tuple[Any, ...], code: float) -> Any:
    """Return the public value of a code; None for NaN, and something else for any other."""
    if math.isnan(code):
        return None
    return values[int(code)] if code in range(len(values)) else "none of the public values"
