"""Sizes are estimated before anything is allocated: the system kills what asks for too much."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dpoco._validation import positive_float

__all__ = ["memory_limit", "require_memory"]

_VARIABLE = "DPOCO_MEMORY_LIMIT"
_UNKNOWN = 16 * 2**30  # of machines that do not tell


def memory_limit() -> float:
    """Return the bytes that one object may need.

    The environment variable ``DPOCO_MEMORY_LIMIT`` (bytes) if it is set; else the machine's memory,
    or its container's if that is less; else 16 GiB.
    """
    given = os.environ.get(_VARIABLE)
    if given is not None:
        try:
            return positive_float(_VARIABLE, float(given))
        except ValueError:
            raise ValueError(f"{_VARIABLE} must be a number of bytes") from None
    try:
        whole = float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows, and systems without these names
        whole = 0.0
    try:
        group = float(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # none, or "max"
        group = 0.0
    known = [size for size in (whole, group) if size > 0.0]
    return min(known, default=float(_UNKNOWN))


def require_memory(parts: Mapping[str, float]) -> None:
    """Raise `MemoryError` if `parts`, numbers of doubles by what needs them, are too many."""
    needed, limit = 8.0 * sum(parts.values()), memory_limit()
    if needed > limit:
        most = max(parts, key=lambda name: parts[name])
        raise MemoryError(
            f"this needs at least {needed:.3g} bytes, most of them for {most} "
            f"({8.0 * parts[most]:.3g}); the limit is {limit:.3g} (set by {_VARIABLE}, else the "
            "machine's memory)"
        )
