"""Checks of arguments that several experiments share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Progress", "whole"]

Progress = Callable[[str, int, int], None]


def whole(name: str, value: Any, least: int = 0) -> int:
    """Return an int in [least, 10^6]; `TypeError` or `ValueError` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if not least <= value <= 10**6:
        raise ValueError(f"{name} must be in [{least}, 1000000]; got {value}")
    return value
