"""How all packages read records: norms, clipping factors, ranges, and flags of changed records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, real_float

Flags = Mapping[str, NDArray[np.bool_]]  # properties of records, or of their columns


class Geometry(Protocol):
    """The part of a `dpoco.domains.Domain` that decides how records are clipped."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""

    @property
    def dual_exponent(self) -> float:
        """Exponent of the norm that records are clipped in."""


# Clipping keeps a reserve of about 1e-14 for rounding. A record exactly at the bound is not a
# violation.
VIOLATION_SLACK = 1e-9


def lp_norm(x: FloatArray, order: float) -> float:
    """Return ``||x||_order`` of a 1-D float64 array, scaled to avoid under- and overflow."""
    # Compiled, because NumPy's norm squares entries and sums them in a machine-dependent order.
    return _core.norm(np.ascontiguousarray(x), order)


def record_clipper(domain: Geometry, bound: float, bound_l2: float | None) -> _core.RecordClipper:
    """Return the clipper for the bounds of records in the dual norm and, if given, in l_2."""
    # An infinite bound clips nothing, so that one code path serves both cases.
    limit = math.inf if bound_l2 is None else bound_l2
    return _core.RecordClipper(domain.dimension, bound, domain.dual_exponent, limit)


def record_multipliers(
    domain: Geometry, records: FloatArray, bound: float, bound_l2: float | None
) -> FloatArray:
    """Return factors in [0, 1], shape (T,), that clip rows of `records` (T, d); 0 = not finite."""
    if records.ndim != 2 or records.shape[1] != domain.dimension:
        raise ValueError(f"records must have shape (any, {domain.dimension}); got {records.shape}")
    return record_clipper(domain, bound, bound_l2).multipliers(np.ascontiguousarray(records))


def record_flags(
    factors: FloatArray,
    labels: FloatArray | None = None,
    label_range: tuple[float, float] = (-math.inf, math.inf),
) -> dict[str, NDArray[np.bool_]]:
    """Return which records are empty or clipped, and whose labels are; shapes (T,); not private."""
    # The clipper returns 0 for records that are not finite.
    empty = factors == 0.0
    flags: dict[str, NDArray[np.bool_]] = {}
    if labels is not None:
        missing = ~np.isfinite(labels)
        inside = (labels >= label_range[0]) & (labels <= label_range[1])
        flags = {"label_missing": missing, "label_out_of_range": ~missing & ~inside}
        empty |= missing
    return {"empty": empty, "clipped": ~empty & ~(factors >= 1.0 - VIOLATION_SLACK), **flags}


def context_flags(contexts: FloatArray, norms: FloatArray | None) -> Flags:
    """Return how contexts are read; `norms` are in units of their bound. Not private."""
    # One non-finite entry makes the whole context empty, as in the engine.
    missing = ~np.isfinite(contexts)
    empty = np.any(missing, axis=1)
    flags: dict[str, NDArray[np.bool_]] = {"missing": missing, "empty": empty}
    if norms is not None:
        flags["clipped"] = ~empty & (norms > 1.0 + VIOLATION_SLACK)
    return flags


def admitted_losses(losses: FloatArray, low: float, high: float) -> FloatArray:
    """Return losses as read by learners: clipped to [low, high], and `low` if not finite."""
    return np.where(np.isfinite(losses), np.clip(losses, low, high), low)


def checked_range(given: Any, name: str = "loss_range") -> tuple[float, float]:
    """Return a declared range as two floats, or raise."""
    try:
        low, high = given
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (low, high)") from None
    low, high = real_float(name, low), real_float(name, high)
    # Losses are divided by the width.
    if not 1e-100 <= high - low <= 1e100:
        raise ValueError(f"{name} must be (low, high) with 1e-100 <= high - low <= 1e100")
    return low, high
