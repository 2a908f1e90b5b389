"""The noise of a million parameters: time of a step, and memory.

Times are CPU milliseconds, interleaved with NumPy's Gaussian draw of the same size. It runs on
Linux and writes its table into docs/comparison.md.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pages import replaced

import dpoco
from dpoco.adapters.gradients import NoisyGradients

SIZE, ROUNDS = 10**6, 9


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def milliseconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return 1e3 * (clock() - start)


def table() -> str:
    """Return the table of the page."""
    total, drawn, generator = np.ones(SIZE), np.empty(SIZE), np.random.default_rng(0)
    generator.standard_normal(out=drawn)
    before = resident()
    own = NoisyGradients(SIZE, clip=1.0, batch_size=64, steps=1000, budget=dpoco.Budget(8.0, 1e-6))
    own.release(total)
    kept = (resident() - before) / (8 * SIZE)
    state = len(own.to_bytes()) / (8 * SIZE)
    pairs = [
        (
            milliseconds(lambda: own.release(total), time.process_time),
            milliseconds(lambda: generator.standard_normal(out=drawn), time.process_time),
        )
        for _ in range(ROUNDS)
    ]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    lines = [
        "| one step of 10^6 parameters | |", "|---|--:|",
        f"| push and increment, ms of CPU | {statistics.median(p[0] for p in pairs):.1f} |",
        f"| over NumPy's Gaussian draw | {ratio:.2f} |",
        f"| doubles a parameter in the state | {state:.2f} |",
        f"| doubles a parameter in memory | {kept:.2f} |",
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "comparison.md"
    text = table()
    print(text)
    page.write_text(replaced(page.read_text("utf-8"), "deep noise", text), "utf-8")
