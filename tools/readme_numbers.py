"""Writes the numbers of README.md where they come from.

``python tools/readme_numbers.py`` prints the lines that would change and exits with 1 if there are
any; ``--write`` writes them. Times are those of docs/performance.md, whose tables
bench/performance.py measures; all others are computed.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_EXPONENTS = (3, 8)  # of the rounds for which README states the error of sums


def count_rounds() -> str:
    """Return how many rounds the stream of the first figure has."""
    from dpoco.datasets._stream import BUNDLED

    return f"{BUNDLED['shuttle'].rounds:,}"


def error_of_sums() -> str:
    """Return the error of continual sums over that of the best factorisation, rounded up."""
    from dpoco.accounting.continual_sum import lower_bound, max_error

    counts = [10**k for k in range(_EXPONENTS[0], _EXPONENTS[1] + 1)]
    largest = max(max_error("blt_normalised", n) / lower_bound(n) for n in counts)
    return f"{math.ceil(100.0 * largest - 0.05) / 100.0:.2f}"


def _times() -> list[tuple[float, float]]:
    """Return the nanoseconds of a live round and of one in a long run, for every learner."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    table = page.split("<!-- begin live -->")[1].split("<!-- end live -->")[0]
    rows = re.findall(r"^\| `\w+`[^|]*`observe` \| ([\d,]+) \| ([\d,]+) \|$", table, re.MULTILINE)
    return [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in rows]


def live_times() -> str:
    """Return what a live round takes, in microseconds."""
    live = [each for each, _ in _times()]
    return f"{min(live) / 1e3:.1f} to {max(live) / 1e3:.1f}"


def run_speeds() -> str:
    """Return how many million rounds a second a long run plays."""
    runs = [each for _, each in _times()]
    return f"{1e3 / max(runs):.1f} to {1e3 / min(runs):.1f}"


# The texts in front of a number and after it, and its source.
NUMBERS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("Average loss over ", " rounds", count_rounds),
    ("The error of continual sums is at most ", " times the least", error_of_sums),
    ("a live round in ten dimensions takes ", " microseconds", live_times),
    ("long runs reach ", " million rounds per", run_speeds),
)


def write_numbers(text: str) -> str:
    """Return README's text with its numbers as they are now."""
    for before, behind, number in NUMBERS:
        pattern = rf"({re.escape(before)})[\d., to]+?({re.escape(behind)})"
        pattern = pattern.replace(r"\ ", r"\s+")
        text, found = re.subn(pattern, lambda m, n=number: m[1] + n() + m[2], text)
        if found != 1:
            raise ValueError(f"README.md has no number, or several, behind {before!r}")
    return text


def main() -> int:
    """Compare or write; return the exit code."""
    parser = argparse.ArgumentParser(description="Writes the numbers of README.md.")
    parser.add_argument("--write", action="store_true", help="write them")
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = write_numbers(old)
    if parser.parse_args().write:
        path.write_text(new, encoding="utf-8")
        return 0
    for before, after in zip(old.splitlines(), new.splitlines(), strict=True):
        if before != after:
            print(f"- {before}\n+ {after}")
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main())
