"""Rooms of what is trusted: sources that are mutated, and folders of tests that answer for them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROOMS", "Room"]


@dataclass(frozen=True)
class Room:
    """What is mutated: patterns below ``python/dpoco`` or ``cpp/src``; tests; the share held.

    The share is of mutants killed, harmless ones left out; 1 means that a whole run must kill all.
    """

    modules: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    share: float = 0.0


_ENGINES = ("tests/contract/test_releases.py", "tests/state/test_same_bits.py",
            "tests/mechanisms", "tests/losses")  # fmt: skip

ROOMS = {
    "kernel": Room(
        ("privacy/*.py", "privacy/*/*.py"), (), ("tests/privacy/test_vectors.py",), 0.9
    ),
    "mechanisms": Room(("mechanisms/_mechanisms.py", "_clipping.py"), (), _ENGINES),
    "settings": Room(
        ("oco/_*.py", "frank_wolfe/_*.py", "experts/_*.py", "bandits/_learners.py"), (), _ENGINES
    ),
    "randomizers": Room(("local/_randomizers.py",), (), ("tests/local", "tests/privacy")),
    "draws": Room(
        (), ("random/*.cpp", "noise/*.cpp", "mechanisms/*.cpp", "losses/record.cpp"),
        (*_ENGINES, "tests/noise", "tests/random"),
    ),
    "engines": Room(
        (), ("oco/*.cpp", "frank_wolfe/*.cpp", "experts/*.cpp", "bandits/*.cpp", "core/*.cpp",
             "losses/*.cpp", "samplers/*.cpp"),
        (*_ENGINES, "tests/samplers"),
    ),
}  # fmt: skip
