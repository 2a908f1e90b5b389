"""The noise of a million parameters: time of a step, memory, and how large it is.

Times are CPU milliseconds, interleaved with NumPy's Gaussian draw of the same size; that of the
file of reservations, whose size does not depend on the model, is the wall time of a step of one
parameter. It runs on Linux and writes its tables into docs/comparison.md.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pages import replace_table

import dpoco
from dpoco.adapters.gradients import NoisyGradients, choose_factorisation, view_error
from dpoco.privacy.neighbours import ONE, Neighbours

SIZE, ROUNDS = 10**6, 9
HERE = Path(__file__).parent


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def milliseconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return 1e3 * (clock() - start)


def reserving() -> float:
    """Return milliseconds of a step with a file of reservations."""
    own = NoisyGradients(1, clip=1.0, batch_size=64, steps=1000, budget=dpoco.Budget(8.0, 1e-6))
    with tempfile.TemporaryDirectory() as folder:
        own.reserve(Path(folder) / "steps")
        found = [milliseconds(lambda: own.release([0.0]), time.perf_counter) for _ in range(200)]
        own.close()
    return statistics.fmean(found)


def speed_table() -> str:
    """Return the table of times and memory."""
    total, drawn, generator = np.ones(SIZE), np.empty(SIZE), np.random.default_rng(0)
    generator.standard_normal(out=drawn)
    reserved = reserving()
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
        f"| with a file of reservations, ms more, mean | {reserved:.2f} |",
        f"| doubles a parameter in the state | {state:.2f} |",
        f"| doubles a parameter in memory | {kept:.2f} |",
    ]  # fmt: skip
    return "\n".join(lines)


def noise_table() -> str:
    """Return the table of root mean squares over the bound of any factorisation."""
    known = json.loads((HERE / "field" / "field.json").read_text("utf-8"))["ours"]["sums"]
    lines = ["| steps n | one step of a person | ten, n/10 apart | the same, 10^6 parameters |",
             "|---|--:|--:|--:|"]  # fmt: skip
    for steps in (10**3, 10**4, 10**5):
        often = Neighbours("zero_out", rounds=10, separation=steps // 10)
        cells = []
        for near, dimension in ((ONE, 1), (often, 1), (often, SIZE)):
            factor = choose_factorisation(steps, near, math.inf, dimension)
            least = known[f"{steps} {near.rounds}"]["least"]
            cells.append(f"{view_error(factor, steps, near, math.inf) / least:.2f}")
        lines.append(f"| {steps:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = HERE.parent / "docs" / "comparison.md"
    text = page.read_text("utf-8")
    for key, table in (("deep noise", speed_table()), ("deep correlation", noise_table())):
        print(table)
        text = replace_table(text, key, table)
    page.write_text(text, "utf-8")
