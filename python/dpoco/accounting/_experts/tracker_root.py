"""Where an increasing function that is dear to evaluate crosses zero, from below.

Claim: the result is a point at which the function was evaluated and found at most 0.

Source: regula falsi, Illinois variant (Dowell and Jarratt, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["last_below"]


def last_below(
    excess: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return an x in [low, high], within `tolerance` of the largest with ``excess(x) <= 0``.

    Needs ``excess(low) <= 0`` (else `low` is returned) and an increasing function.
    """
    if excess(high) <= 0.0:
        return high
    at_low = excess(low)
    step = 0.25
    x = low
    while True:  # gallop up
        x = min(high, low + step)
        value = excess(x)
        if value > 0.0:
            break
        low, at_low, step = x, value, 2.0 * step
    upper, at_upper = x, value
    # Illinois variant of regula falsi.
    while upper - low > tolerance:
        if at_upper == math.inf:
            x = 0.5 * (low + upper)
        else:
            x = low - at_low * (upper - low) / (at_upper - at_low)
        x = min(max(x, low + 0.1 * tolerance), upper - 0.1 * tolerance)
        value = excess(x)
        if value <= 0.0:
            low, at_low, at_upper = x, value, 0.5 * at_upper
        else:
            upper, at_upper, at_low = x, value, 0.5 * at_low
    return low
