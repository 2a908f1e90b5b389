"""The survivors that are harmless, and why: ``survivors.txt``.

A row is a file, the symbol that the change is in, and the change as it is printed, parted by tabs;
``*`` is every change of the symbol, and ``#2`` the second of equal ones. The reason is the heading
above it. No line of a source is quoted: names of other things and the layout may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

__all__ = ["excused", "number_repeats", "stale"]

_LISTED = Path(__file__).with_name("survivors.txt")
Row = tuple[str, str, str]


def number_repeats(changes: Iterable[tuple[str, str]]) -> list[str]:
    """Return the texts of a file's changes, (symbol, text), so that equal ones of a symbol differ.

    The second of them ends with "#2", and so on.
    """
    seen, found = Counter[tuple[str, str]](), []
    for each in changes:
        seen[each] += 1
        found.append(each[1] if seen[each] == 1 else f"{each[1]} #{seen[each]}")
    return found


@lru_cache(maxsize=1)
def _rows() -> dict[Row, str]:
    """Return the reason of each row."""
    found, reason = {}, ""
    for line in _LISTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason = line.removeprefix("# ")
        elif line:
            file, symbol, change = line.split("\t")
            found[file, symbol, change] = reason
    return found


def excused(file: str, symbol: str, change: str) -> str | None:
    """Return the reason why a change that survives is harmless, if it is listed."""
    return _rows().get((file, symbol, change)) or _rows().get((file, symbol, "*"))


def stale(known: Iterable[Row]) -> list[str]:
    """Return the rows about these files that no mutant matches."""
    rows = {*known}
    rows |= {(file, symbol, "*") for file, symbol, _ in rows}
    files = {file for file, _, _ in rows}
    return ["  ".join(row) for row in _rows() if row[0] in files and row not in rows]
