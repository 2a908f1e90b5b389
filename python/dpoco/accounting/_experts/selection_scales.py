"""How parameters of selections keep their fields."""

from __future__ import annotations

import math
from typing import Any

from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero

__all__ = ["store", "zero_or_more"]


def store(parameters: StoredParameters, **values: Any) -> None:
    """Set fields of frozen parameters to values as they were checked and converted."""
    for name, value in values.items():
        object.__setattr__(parameters, name, value)


def zero_or_more(name: str, value: Any) -> float:
    """Return `value` as a float >= 0, possibly infinite, or raise naming the argument."""
    return (
        math.inf if isinstance(value, float) and value == math.inf else at_least_zero(name, value)
    )
