"""Scales of noise for a pure epsilon, and how parameters of selections keep their fields.

Proof: ``docs/privacy/noisy_max.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero
from dpoco.errors import CalibrationError

__all__ = ["LARGEST_NOISE", "raised_until", "scale_for", "store", "zero_or_more"]

# Scales beyond would overflow in sums and products.
LARGEST_NOISE = 1e200


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


def store(parameters: StoredParameters, **values: Any) -> None:
    """Set fields of frozen parameters to values as they were checked and converted."""
    for name, value in values.items():
        object.__setattr__(parameters, name, value)


def zero_or_more(name: str, value: Any) -> float:
    """Return `value` as a float >= 0, possibly infinite, or raise naming the argument."""
    return (
        math.inf if isinstance(value, float) and value == math.inf else at_least_zero(name, value)
    )
