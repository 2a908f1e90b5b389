"""A million streams on one machine: memory, and the first answer after a restart.

Usage: python bench/many_streams.py [--streams 1000000] [--journals 8] [--folder FOLDER]

Makes the streams in pools with a journal each, then starts over: opens the journal of one key and
decides, opens all of them and plays records of random keys. Every step is its own process, so
that its time begins with Python's start. Exits with 1 if a target is missed. Ten minutes and a
gigabyte of disk.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import dpoco

MOST_GIGABYTES, MOST_SECONDS = 4.0, 5.0
AT_ONCE, ROUNDS, BATCH = 10_000, 400_000, 20_000
N = 5


def make_pool(folder: Path, index: int, stack: ExitStack, hedge: Any = None) -> Any:
    journal = stack.enter_context(dpoco.journal.Journal(folder / f"{index}.db"))
    return dpoco.scale.KeyedPool(hedge, journal=journal, max_keys=10**7)


def make(folder: Path, streams: int, journals: int) -> None:
    budget = dpoco.Budget(epsilon=1.0, delta=1e-9)
    hedge = dpoco.experts.PrefixHedge(N, horizon=10**6, budget=budget)
    for index in range(journals):
        with ExitStack() as stack:
            pool = make_pool(folder, index, stack, hedge)
            keys = list(range(index, streams, journals))
            for start in range(0, len(keys), AT_ONCE):
                pool.register(keys[start : start + AT_ONCE])


def answer(folder: Path, streams: int, journals: int) -> None:
    key = streams // 3
    with ExitStack() as stack:
        make_pool(folder, key % journals, stack).decide(key)
        report()


def serve(folder: Path, streams: int, journals: int) -> None:
    generator = np.random.default_rng(1)
    with ExitStack() as stack:
        pools = [make_pool(folder, index, stack) for index in range(journals)]
        start = time.process_time()
        for turn in range(ROUNDS // BATCH):
            index = turn % journals
            keys = index + journals * generator.integers(0, (streams - index) // journals, BATCH)
            pools[index].process(keys, generator.random((BATCH, N)))
        spent = 1e6 * (time.process_time() - start) / ROUNDS
        print(f"{sum(map(len, pools)):,} streams open; {spent:.0f} us a durable round", flush=True)
        report()


def report() -> None:
    """CPU time of the process so far, and its largest memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.process_time():.2f} s {peak:.2f} GB", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Many streams: memory, and the first answer.")
    parser.add_argument("--streams", type=int, default=10**6)
    parser.add_argument("--journals", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="keep the journals here")
    parser.add_argument("--step", choices=["make", "answer", "serve"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = options.streams, options.journals
    if options.step == "make":
        make(options.folder, *sizes)
        report()
        return 0
    if options.step is not None:
        (answer if options.step == "answer" else serve)(options.folder, *sizes)
        return 0
    missed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for step in ("make", "answer", "serve"):
            command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
            command += ["--streams", str(sizes[0]), "--journals", str(sizes[1])]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            print(f"{step}: {text.strip()}", flush=True)
            seconds, gigabytes = float(text.split()[-4]), float(text.split()[-2])
            missed |= gigabytes > MOST_GIGABYTES or (step == "answer" and seconds > MOST_SECONDS)
    print("missed" if missed else "met", f"at most {MOST_GIGABYTES} GB, {MOST_SECONDS} s to answer")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
