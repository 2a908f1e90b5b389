"""Rooms of what is trusted: sources that are mutated, tests that answer for them, and results.

``results.json`` holds what the last recorded run of each room counted. The table of
``docs/privacy/mutation.md`` is written from it, and samples are held to its shares.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "RESULTS", "ROOMS", "Room", "record", "recorded", "table"]

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "privacy" / "mutation.md"
MARKS = "<!-- results -->\n", "<!-- end of results -->\n"


@dataclass(frozen=True)
class Room:
    """What is mutated, as patterns below ``python/dpoco`` or ``cpp/src``, and the tests.

    `programs` are made of files in ``tests/cpp``; ``programs.py`` among the tests runs them.
    """

    modules: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    programs: tuple[tuple[str, ...], ...] = ()


_PLAYED = "tests/contract/test_releases.py", "tests/state/test_same_bits.py"

ROOMS = {
    "kernel": Room(("privacy/*.py", "privacy/*/*.py"), (), ("tests/privacy/test_vectors.py",)),
    "mechanisms": Room(
        ("mechanisms/_mechanisms.py", "_clipping.py"), (),
        (*_PLAYED, "tests/mechanisms", "tests/losses"),
    ),
    "settings": Room(
        ("oco/_*.py", "frank_wolfe/_*.py", "experts/_*.py", "bandits/_learners.py"), (), _PLAYED
    ),
    "randomizers": Room(("local/_randomizers.py",), (), ("tests/local", "tests/privacy")),
    "draws": Room(
        (), ("random/*.cpp", "noise/*.cpp", "mechanisms/*.cpp", "losses/record.cpp"),
        (*_PLAYED, "tests/noise", "tests/random", "tests/losses/test_clipping.py",
         "tests/mutation/programs.py"),
        (
            ("test_draws.cpp", "test_mechanisms.cpp", "test_discrete.cpp", "test_lattice.cpp",
             "test_losses.cpp", "test_random.cpp", "test_selection.cpp"),
            ("test_scripted_words.cpp",),
        ),
    ),
    "engines": Room(
        (), ("oco/*.cpp", "frank_wolfe/*.cpp", "experts/*.cpp", "bandits/*.cpp", "core/*.cpp"),
        _PLAYED,
    ),
}  # fmt: skip


def recorded() -> dict[str, dict[str, int | str]]:
    """Return the counts of the last recorded run of each room."""
    found: dict[str, dict[str, int | str]] = json.loads(RESULTS.read_text())
    return found


def record(room: str, counts: dict[str, int | str]) -> None:
    """Keep the counts of a run, and write the table of the page."""
    RESULTS.write_text(json.dumps(recorded() | {room: counts}, indent=1, sort_keys=True) + "\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(before + MARKS[0] + table() + MARKS[1] + after, encoding="utf-8")


def table() -> str:
    """Return the recorded counts as a table of the page."""
    rows = ["| room | mutants | run | harmless | killed | survived | share killed |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for room, each in sorted(recorded().items()):
        killed, survived = int(each["killed"]), int(each["survived"])
        share = f"{killed / max(1, killed + survived):.1%}"
        numbers = [each[name] for name in ("mutants", "run", "harmless", "killed", "survived")]
        rows.append("| " + " | ".join(map(str, [room, *numbers, share])) + " |")
    return "\n".join(rows) + "\n"
