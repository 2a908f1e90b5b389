"""The best order of a Renyi divergence curve, found on a grid and refined.

Every order gives a valid bound, so an imperfect search is safe. Proof of the conversion:
``docs/privacy/gaussian.md``, section "Renyi divergences".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.gaussian import SMALLEST_DELTA

__all__ = ["best_delta", "best_epsilon"]

FloatArray = NDArray[np.float64]
Curve = Callable[[FloatArray], FloatArray]

_SMALLEST, _LARGEST = 1e-4, 1e7
# Orders this close to 1 are not told apart in double precision.
_NO_ORDER = 1e-8
_COARSE, _FINE, _ROUNDS = 500, 33, 4
# Added to log delta: more than its error, whose second part is the rounding of large terms.
_MARGIN, _TERM = 2.0**-44, 2.0**-50


def best_epsilon(curve: Curve, delta: float, largest: float) -> float:
    """Return the smallest epsilon >= 0 that divergences prove at `delta`; infinite if none is.

    Parameters
    ----------
    curve : callable
        Orders (array) to bounds on the divergence; infinite where nothing is known.
    delta : float
        Strictly between 0 and 1.
    largest : float
        Supremum of order - 1 over the admissible orders, positive, possibly infinite.
    """
    if largest < _NO_ORDER:
        return math.inf
    if _identical(curve, largest):
        return 0.0
    log_delta = math.log(delta)

    def bound(t: FloatArray) -> FloatArray:
        return curve(1.0 + t) - np.log1p(1.0 / t) - (log_delta + np.log1p(t)) / t

    return max(0.0, _minimum(bound, largest))


def best_delta(curve: Curve, epsilon: float, largest: float) -> float:
    """Return the smallest delta proved at a finite `epsilon`; other arguments as above."""
    if largest < _NO_ORDER:
        return 1.0
    if _identical(curve, largest):
        return 0.0

    def bound(t: FloatArray) -> FloatArray:
        divergence = curve(1.0 + t)
        up = _MARGIN + _TERM * (t * (divergence + epsilon) + np.abs(np.log(t)))
        return t * (divergence - epsilon) - np.log(t) - (1.0 + t) * np.log1p(1.0 / t) + up

    return min(1.0, math.exp(min(0.0, _minimum(bound, largest))) + SMALLEST_DELTA)


def _identical(curve: Curve, largest: float) -> bool:
    """Return whether the divergence of some order is 0, which makes the laws equal."""
    return float(curve(np.array([1.0 + min(1.0, 0.5 * largest)]))[0]) == 0.0


def _minimum(bound: Curve, largest: float) -> float:
    """Return the minimum of `bound` over t in (0, largest), infinite if it is nowhere finite."""
    # Just inside the open end, where the divergence is still finite.
    high = math.log(min(_LARGEST, largest * (1.0 - 1e-9)))
    low = min(math.log(_SMALLEST), high - 1.0)
    best, count = math.inf, _COARSE
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, count)
        values = bound(np.exp(grid))
        at = int(np.argmin(values))
        best = min(best, float(values[at]))
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, count - 1)])
        count = _FINE
    return best
