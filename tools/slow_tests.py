"""Write tests/slow.txt from measured processor times.

Usage: python -m pytest --timings FILE; python tools/slow_tests.py FILE...

A test is slow if one set of its parameters takes over 0.1 s, or all together over half a second;
unless they are so many that one takes 10 ms on average. Where several files have it, the least
counts. Tests that were not measured keep their lines, and all keep their reasons; those of over a
second without are printed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOW = ROOT / "tests" / "slow.txt"
ONE, ALL, EACH, OWES = 0.1, 0.5, 0.01, 1.0


def read_timings(paths: list[Path]) -> dict[str, dict[str, float]]:
    """Return seconds of each test by its parameters."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for path in paths:
        for line in path.read_text().splitlines():
            seconds, _, node = line.partition(" ")
            test, _, given = node.partition("[")
            found[test][given] = min(float(seconds), found[test].get(given, float("inf")))
    return found


def read_list(text: str) -> dict[str, tuple[float, str]]:
    """Return seconds and reason of each test of the list."""
    rows = (line.split(maxsplit=2) for line in text.splitlines())
    return {row[0]: (float(row[1]), row[2] if len(row) > 2 else "") for row in rows}


def renew(text: str, found: dict[str, dict[str, float]]) -> str:
    """Return the list, renewed."""
    known = read_list(text)
    for test, times in found.items():
        _, reason = known.pop(test, (0.0, ""))
        together = sum(times.values())
        if together > EACH * len(times) and (max(times.values()) > ONE or together > ALL):
            known[test] = (max(times.values()), reason)
    rows = (
        f"{test} {time:.1f} {reason}".rstrip()
        for test, (time, reason) in known.items()
        if (ROOT / test.partition("::")[0]).exists()
    )
    return "\n".join(sorted(rows)) + "\n"


def main(arguments: list[str]) -> None:
    """Renew the list and print what owes a reason."""
    text = renew(SLOW.read_text(), read_timings([Path(name) for name in arguments]))
    SLOW.write_text(text)
    for test, (seconds, reason) in read_list(text).items():
        if seconds > OWES and not reason:
            print(f"{seconds:.1f} s without a reason: {test}")


if __name__ == "__main__":
    main(sys.argv[1:])
