"""Rooms of what is trusted: sources that are mutated, and folders of tests that answer for them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROOMS", "Room"]


@dataclass(frozen=True)
class Room:
    """Patterns of modules below ``python/dpoco``, tests, and the share of a sample that is held."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    share: float = 0.0  # of a room that was not run yet: nothing


_KERNEL = "tests/privacy", "tests/accounting", "tests/check/test_golden.py"
_ENGINES = "tests/contract", "tests/mechanisms", "tests/losses"

ROOMS = {
    "kernel": Room(("privacy/*.py", "privacy/*/*.py"), _KERNEL, 0.6),
    "accounting": Room(("accounting/*.py",), _KERNEL),
    "mechanisms": Room(("mechanisms/_mechanisms.py", "_clipping.py"), _ENGINES),
    "settings": Room(
        ("oco/_*.py", "frank_wolfe/_online.py", "experts/_*.py", "bandits/_learners.py"),
        (*_ENGINES, "tests/oco", "tests/frank_wolfe", "tests/experts", "tests/bandits"),
    ),
    "randomizers": Room(("local/_randomizers.py",), ("tests/local", "tests/privacy")),
}
