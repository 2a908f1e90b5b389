"""What users give as hypotheses and contexts: checked once, and owned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_rows", "context_key", "owned_array"]

FloatArray = NDArray[np.float64]

# A row that sums to 1 in float32, and rows of a hundred thousand labels, stay inside.
_SUM_TOLERANCE = 1e-6


def owned_array(source: Any) -> FloatArray:
    """Return `source` as a read-only C-contiguous float64 array nobody else can change."""
    if (
        type(source) is np.ndarray
        and source.dtype == np.float64
        and source.flags.c_contiguous
        and source.flags.aligned
        and source.flags.owndata
        and not source.flags.writeable
    ):
        return source
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError("hypotheses must be an array of real numbers; got a masked array")
    try:
        given = np.asarray(source)
    except (TypeError, ValueError):
        raise TypeError(
            f"hypotheses must be an array of real numbers; got {type(source).__name__}"
        ) from None
    if given.dtype.kind not in "fiub":
        raise TypeError(f"hypotheses must have a real dtype; got {given.dtype.type.__name__}")
    owned = np.array(given, dtype=np.float64, order="C", copy=True)
    owned.flags.writeable = False
    return owned


def check_rows(matrix: FloatArray, context: int | None) -> None:
    """Raise unless every row is a distribution; name the row, never what is in it."""
    where = "" if context is None else f" of context {context}"
    with np.errstate(all="ignore"):
        sums = matrix.sum(axis=1)
        smallest = matrix.min(axis=1)
    for faulty, text in (
        (~np.isfinite(sums) | np.isnan(smallest), "holds a number that is not finite"),
        (smallest < 0.0, "holds a negative number"),
        (~(np.abs(sums - 1.0) <= _SUM_TOLERANCE), "does not sum to 1 within 1e-6"),
    ):
        if faulty.any():
            raise ValueError(f"row {int(np.argmax(faulty))}{where} {text}: no distribution")


_ATOMS = (int, float, str, bytes, bool, type(None), np.integer, np.floating)


def context_key(x: Any) -> Any:
    """Return what identifies a context, or None where it could change behind our back."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return ("array", x.shape, x.dtype.str, x.tobytes())
    if isinstance(x, tuple):
        parts = tuple(context_key(part) for part in x)
        return None if None in parts else ("tuple", parts)
    if isinstance(x, _ATOMS):
        return (type(x).__name__, x)
    return None
