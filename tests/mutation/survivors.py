"""The survivors that are harmless, and why: ``survivors.txt``.

A row is a file, a tab, a change as it is printed, a tab, and the reason. A ``*`` in the change
stands for any text. Other lines are headings.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

__all__ = ["excused", "rows", "stale"]

_LISTED = Path(__file__).with_name("survivors.txt")


@lru_cache(maxsize=1)
def rows() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """Return file, pattern of changes, and reason of each row."""
    found = []
    for line in _LISTED.read_text(encoding="utf-8").splitlines():
        if "\t" in line:
            file, change, reason = line.split("\t")
            pattern = ".*".join(re.escape(part) for part in change.split("*~"))
            found.append((file, re.compile(pattern, re.DOTALL), reason))
    return tuple(found)


def excused(file: str, text: str, line: int) -> str | None:
    """Return the reason why a surviving change is harmless, if there is one."""
    found = (r for f, p, r in rows() if f == file and p.fullmatch(text))
    return next(found, None)


def stale(room: str, known: set[tuple[str, str, int]]) -> list[str]:
    """Return the rows about files of the room that no mutant matches."""
    files = {file for file, _, _ in known}
    return [
        f"{file}: {pattern.pattern}"
        for file, pattern, _ in rows()
        if file in files and not any(f == file and pattern.fullmatch(t) for f, t, _ in known)
    ]
