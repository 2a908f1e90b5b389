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
    layout = monitor._layout
    names = [(column.name, column.values) for column in layout.columns] + list(layout.by)
    for row in present(rows):
        pairs = zip(names, row[1:].tolist(), strict=True)
        monitor.add({
            name: x if values is None else _value(values, x) for (name, values), x in pairs
        })  # fmt: skip
    monitor.release()
    total: FloatArray = monitor._past[-1]
    return total


def _value(values: tuple[Any, ...], code: float) -> Any:
    """Return the public value of a code; None for NaN, and something else for any other."""
    if math.isnan(code):
        return None
    return values[int(code)] if code in range(len(values)) else "none of the public values"
