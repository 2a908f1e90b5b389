"""A service in a process of its own: plays its plan on a journal, printing what it delivers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from crash_cases import serve
from journal_cases import QuickStore


def deliver(name, turn, release):
    os.write(1, f"{name} {turn} {release.hex()}\n".encode())  # one write: whole or not at all


def main(path, seed):
    """Serve again and again, forking, until killed: a child for every line of standard input."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            serve(QuickStore(path), int(seed), deliver)
            os._exit(0)
        os.write(2, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {status}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
