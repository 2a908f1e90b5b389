"""The survivors that are harmless, and why: ``survivors.txt``.

A row is a file, the line of code, and the change as it is printed, parted by tabs; ``*`` is every
change of the line. The reason is the heading above it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

__all__ = ["excused", "stale"]

_LISTED = Path(__file__).with_name("survivors.txt")
Row = tuple[str, str, str]


@lru_cache(maxsize=1)
def _rows() -> dict[Row, str]:
    """Return the reason of each row."""
    found, reason = {}, ""
    for line in _LISTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason = line.removeprefix("# ")
        elif line:
            file, code, change = line.split("\t")
            found[file, code, change] = reason
    return found


def excused(file: str, code: str, change: str) -> str | None:
    """Return the reason why a change that survives is harmless, if it is listed."""
    return _rows().get((file, code, change)) or _rows().get((file, code, "*"))


def stale(known: Iterable[Row]) -> list[str]:
    """Return the rows about these files that no mutant matches."""
    rows = {*known}
    rows |= {(file, code, "*") for file, code, _ in rows}
    files = {file for file, _, _ in rows}
    return ["  ".join(row) for row in _rows() if row[0] in files and row not in rows]
