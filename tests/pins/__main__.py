"""Numbers and hashes that must not move without notice: compare them, or write them again.

    python -m tests.pins                    # which entries moved, to the last bit
    python -m tests.pins releases golden    # of these files
    python -m tests.pins --write releases   # after a change that is meant

Each file of this folder belongs to the program that measures it and says what it is for. A change
that is meant commits the new file, and CHANGELOG.md says under **Privacy** what moved and why.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from check import golden
from tests.contract import test_releases
from tests.pins import files
from tests.privacy import test_vectors
from tests.state import test_same_bits

PINS = {
    "golden": lambda: golden.measure()[0],
    "releases": test_releases.measure,
    "same_bits": test_same_bits.measure,
    "vectors": test_vectors.measure,
}


def moved(was: Any, now: Any, at: str = "") -> Iterator[str]:
    """Yield the entries in which two records differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            yield from moved(was.get(key), now.get(key), f"{at}: {key}" if at else key)
    elif was != now:
        yield f"{at}: {was} -> {now}"


def main(arguments: list[str]) -> int:
    """Run the command; return 1 if something moved and was not written."""
    parser = argparse.ArgumentParser(description="Compare pinned numbers, or write them again.")
    parser.add_argument("names", nargs="*", choices=[*PINS, []], help="files; all unless given")
    parser.add_argument("--write", action="store_true", help="replace the files")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of noise that dominates
    count = 0
    for name in options.names or PINS:
        now = PINS[name]()
        lines = list(moved(files.read(name), now))
        print("\n".join([*(f"{name}: {line}" for line in lines), f"{name}: {len(lines)} moved"]))
        if options.write:
            files.write(name, now)
        count += len(lines)
    return int(count > 0 and not options.write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
