"""The largest budget for which something fits, found with few trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["largest_fitting"]

_Found = TypeVar("_Found")
_PRECISION = 1e-3  # relative, of epsilon
_SMALLEST = 2.0**-12  # of the largest epsilon: less is not worth opening anything
_TRIALS = 30


def largest_fitting(attempt: Callable[[float], _Found | None], largest: float) -> _Found | None:
    """Return ``attempt(epsilon)`` at the largest epsilon for which it is not None.

    Assumes that what fits at an epsilon fits at smaller ones; up to a relative 1e-3, at most 30
    attempts; None if nothing fits down to `largest` / 4096.
    """
    best = attempt(largest)
    if best is not None:
        return best
    high, low, trials = largest, 0.5 * largest, 1
    while (best := attempt(low)) is None:
        high, low, trials = low, 0.5 * low, trials + 1
        if low < _SMALLEST * largest:
            return None
    while high > low * (1.0 + _PRECISION) and trials < _TRIALS:
        middle, trials = (low * high) ** 0.5, trials + 1
        found = attempt(middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best
