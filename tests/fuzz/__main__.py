"""``python -m tests.fuzz``: does anything malformed crash, hang, or slip through?

Four campaigns. ``states``: mutated state files of every saved class. ``calls``: the public methods
of every learner, mechanism, client and server with wrong arguments in a wrong order. ``records``:
what goes over the wire or into JSON. ``engines``: compiled methods with wrong arrays, for memory
safety. Every case follows from the seed and its name alone, whichever cases ran before it.

    python -m tests.fuzz --seconds 60 --seed 3         # as long as that
    python -m tests.fuzz --cases 20                    # that many of each subject
    python -m tests.fuzz --case "states/LinUCB/17" --seed 3

Cases run in a process of their own with a bounded address space and a watchdog; one that dies or
hangs is reported, and the run goes on behind it. Exit status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_MOST_DEATHS = 20
_FOUND = 3  # of the worker


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if nothing is found, 1 otherwise."""
    options = _options(arguments)
    if options.worker is not None:
        from tests.fuzz.worker import work

        return work(options)
    deadline = time.monotonic() + options.seconds
    found = deaths = 0
    after = ""
    with tempfile.TemporaryDirectory() as folder:
        position = Path(folder, "position")
        while True:
            left = max(0.0, deadline - time.monotonic())
            command = [
                sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--worker", str(position),
                "--seed", str(options.seed), "--seconds", str(left), "--after", after,
                "--cases", str(options.cases), "--match", options.match, "--case", options.case,
            ]  # fmt: skip
            code = subprocess.run(command, cwd=_ROOT, check=False, env=os.environ).returncode
            if code in (0, _FOUND):
                found += 1 if code else 0
                break
            after = position.read_text() if position.exists() else ""
            print(f"FOUND {after.strip() or 'start'}: the process ended with status {code}")
            found += 1
            deaths += 1
            if not after or deaths == _MOST_DEATHS:
                break
            after = after.strip()
    return 1 if found else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--cases", type=int, default=2**31, help="of each subject")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="only subjects whose name has this in it")
    parser.add_argument("--case", default="", help="one case, as named in a finding")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--after", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.seconds >= 1e9 and options.cases >= 2**31 and not options.case:
        parser.error("say how long: --seconds or --cases")
    return options


if __name__ == "__main__":
    sys.exit(main())
