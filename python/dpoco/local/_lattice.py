"""Public lattices of the channels with additive noise: integers in place of real values."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["clamped", "diameters", "kept", "lattice_step", "on_lattice"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
T = TypeVar("T")

_DIGITS = 20
# Beyond these the diameters are bounded by sums of ranges instead of found over all pairs.
_MOST_PAIRED_LABELS = 4096
_MOST_WORK = 2**30
# An honest report is beyond so many scales of noise with probability below e^-64 a coordinate.
_REACH = 64
_KEPT_BYTES = 2**27
_store: OrderedDict[Hashable, tuple[Any, Any, int]] = OrderedDict()
_held = [0]  # bytes
_lock = threading.Lock()


def lattice_step(reach: float) -> float:
    """Return g = 2^(ceil(log2 reach) - 20): a million steps or more to values of size `reach`."""
    mantissa, exponent = math.frexp(reach)
    return math.ldexp(1.0, (exponent if mantissa > 0.5 else exponent - 1) - _DIGITS)


def on_lattice(values: FloatArray, step: float) -> IntArray:
    """Return ``values / step`` rounded half to even; `step` is a power of two."""
    return np.rint(values / step).astype(np.int64)


def clamped(values: IntArray, table: IntArray, scale: Fraction) -> IntArray:
    """Return reports clamped to what honest devices send: 64 scales around the table's rows.

    Parameters
    ----------
    values : int array of shape (n, rows)
        What came in: any 64-bit integers.
    table : int array of shape (rows, M)
        What is sent about each label before noise, entries below 2^22 scales; 0 for no label.
    scale : Fraction
        Of the noise, in lattice steps.

    Notes
    -----
    One device that lies is then no stronger than an honest one with very bad luck; an honest
    report is changed with probability below ``rows * e^-64``, less than 1e-27 for one loss.
    """
    reach = math.ceil(_REACH * scale)
    high = np.maximum(table.max(axis=1), 0) + reach
    low = np.minimum(table.min(axis=1), 0) - reach
    inside: IntArray = np.clip(values, low, high)
    return inside


def diameters(table: IntArray) -> tuple[int, float, IntArray]:
    """Return how far two columns of a table, or a column and zero, can be apart.

    Parameters
    ----------
    table : int array of shape (K, M)
        One column a label, entries below 2^22.

    Returns
    -------
    l1 : int
        Largest sum of absolute differences.
    l2 : float
        Largest Euclidean distance, rounded up.
    ranges : int array of shape (K,)
        Largest difference of each row.

    Notes
    -----
    Over all pairs, O(K M^2), for at most 4096 labels and K M^2 <= 2^30; else, from the ranges,
    upper bounds in O(K M). One row takes O(M).
    """
    high = np.maximum(table.max(axis=1), 0)
    low = np.minimum(table.min(axis=1), 0)
    ranges = high - low
    if table.shape[1] > _MOST_PAIRED_LABELS or table.shape[0] * table.shape[1] ** 2 > _MOST_WORK:
        squares = sum(int(width) ** 2 for width in ranges)
        return int(ranges.sum()), _root(squares), ranges
    if table.shape[0] == 1:
        return int(ranges[0]), float(ranges[0]), ranges
    columns = np.unique(np.vstack([table.T, np.zeros(table.shape[0], dtype=np.int64)]), axis=0)
    l1 = square = 0
    for i in range(len(columns) - 1):
        gaps = np.abs(columns[i + 1 :] - columns[i])
        l1 = max(l1, int(gaps.sum(axis=1).max()))
        square = max(square, int((gaps * gaps).sum(axis=1).max()))
    return l1, _root(square), ranges


def _root(square: int) -> float:
    """Return the square root of an integer, rounded up."""
    return math.nextafter(math.sqrt(square), math.inf) if square else 0.0


def kept(matrix: FloatArray, settings: Hashable, build: Callable[[], T]) -> T:
    """Return what `build` makes of a public array, at best as it was made before.

    The array is recognised by its memory, which the store keeps alive; it is read-only. What was
    not asked for longest goes first, once arrays and tables together exceed 128 MB.
    """
    key = (matrix.__array_interface__["data"][0], matrix.shape, settings)
    with _lock:
        if key in _store:
            _store.move_to_end(key)
            found: T = _store[key][1]
            return found
    made = build()
    if not matrix.flags.writeable:
        with _lock:
            # A table of contexts is alive anyway.
            size = 0 if matrix.base is not None else matrix.nbytes
            size += getattr(getattr(made, "table", None), "nbytes", 0) + 4096
            if key not in _store:  # another thread may have been faster
                _store[key] = (matrix, made, size)
                _held[0] += size
            while len(_store) > 1 and _held[0] > _KEPT_BYTES:
                _held[0] -= _store.popitem(last=False)[1][2]
    return made
