"""One-dimensional searches of planners: they prove nothing, guarantees are computed afterwards.

Proof of the scales: ``docs/privacy/noisy_max.md``. Source of the root finder: regula falsi,
Illinois variant (Dowell and Jarratt, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpoco.errors import CalibrationError

# Scales beyond would overflow in sums and products.
LARGEST_NOISE = 1e200
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def scale_for(reach: float, epsilon: float) -> float:
    """Return the smallest scale b, a double of at least 1e-200, with ``reach / b <= epsilon``.

    Raises
    ------
    CalibrationError
        If it exceeds 1e200.
    """
    if not epsilon * LARGEST_NOISE >= reach:
        raise CalibrationError(
            f"this budget needs a noise scale above {LARGEST_NOISE:g}; the smallest epsilon (of "
            f"this part of it) that does not is {reach / LARGEST_NOISE:.6g}"
        )
    return raised_until(max(reach / epsilon, 1.0 / LARGEST_NOISE), lambda b: reach / b <= epsilon)


def raised_until(scale: float, holds: Callable[[float], bool]) -> float:
    """Return the smallest double from `scale` on that holds; further away, one not far above."""
    step = 2.0**-58
    while not holds(scale):
        scale, step = math.nextafter(scale, math.inf) * (1.0 + step), 2.0 * step
    return scale


def least(value: Callable[[float], float], low: float, high: float) -> float:
    """Return the x in [low, high] with the least value, if there is one minimum: golden section."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(52):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right


def last_below(
    excess: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return an x in [low, high], within `tolerance` of the largest with ``excess(x) <= 0``.

    Needs ``excess(low) <= 0`` (else `low` is returned) and an increasing function.
    """
    if excess(high) <= 0.0:
        return high
    at_low, step = excess(low), 0.25
    while True:  # gallop up
        x = min(high, low + step)
        value = excess(x)
        if value > 0.0:
            break
        low, at_low, step = x, value, 2.0 * step
    upper, at_upper = x, value
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
