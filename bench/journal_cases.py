"""Rows of the table for `dpoco.journal`: a round with a journal, in rounds without one."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measurement import Row, cpu_seconds
from numpy.typing import NDArray

import dpoco
from dpoco.journal import Journal, SqliteStore, Stream

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
HORIZON = 10**7
BATCH = 500


def tree_frank_wolfe() -> Any:
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(20, p=1.5),
        dpoco.losses.SquaredLoss(1.0, 1.0),
        horizon=HORIZON,
        budget=BUDGET,
    )


def prefix_hedge() -> Any:
    return dpoco.experts.PrefixHedge(100, horizon=HORIZON, budget=BUDGET)


def batches(arrays: tuple[NDArray[Any], ...]) -> Iterator[tuple[NDArray[Any], ...]]:
    for start in range(0, len(arrays[0]), BATCH):
        yield tuple(array[start : start + BATCH] for array in arrays)


def each(process: Callable[..., object], arrays: tuple[NDArray[Any], ...]) -> None:
    for batch in batches(arrays):
        process(*batch)


def ahead(stream: Stream, arrays: tuple[NDArray[Any], ...]) -> None:
    for _ in stream.process_many(batches(arrays)):
        pass


def wall_seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def flush_seconds(folder: Path) -> float:
    """Return the median time that the file system takes to make one page durable."""
    times = []
    with open(folder / "flushed", "wb", buffering=0) as file:
        for _ in range(25):
            start = time.perf_counter()
            file.write(bytes(8192))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return median(times)


MODES = (  # durability, releases, whether `process_many`
    ("disk", "stored", False),
    ("process", "stored", False),
    ("process", "recompute", False),
    ("disk", "stored", True),
    ("disk", "recompute", True),
    ("process", "recompute", True),
)


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    """Costs of a round with a journal over one without; smaller is better, so no row is a claim."""
    rounds = max(BATCH, 50_000 // shrink)
    rng = np.random.default_rng(1)
    records = (rng.normal(size=(rounds, 20)) / 8.0, rng.uniform(-1.0, 1.0, rounds))
    losses = (rng.uniform(size=(rounds, 100)),)
    cases: tuple[tuple[str, Callable[[], Any], tuple[NDArray[Any], ...]], ...] = (
        ("TreeFrankWolfe, d = 20", tree_frank_wolfe, records),
        ("PrefixHedge, N = 100", prefix_hedge, losses),
    )
    best = dpoco.random.instruction_set()
    group = f"Journal on SQLite, batches of {BATCH}: cost of a round over that without"
    for name, make, arrays in cases:
        alone = make()
        plain = partial(each, alone.run, arrays)
        plain()
        for durability, releases, many in MODES:
            with tempfile.TemporaryDirectory() as folder:
                store = SqliteStore(Path(folder) / "journal.db", durability=durability)
                with Journal(store, releases=releases) as journal:
                    stream = journal.open("stream", make)
                    kept = partial(ahead, stream, arrays) if many else None
                    yield from measure(
                        group,
                        f"{name}, {durability}, {releases}, "
                        f"{'process_many' if many else 'process'}",
                        best,
                        (plain, kept or partial(each, stream.process, arrays)),
                        pairs,
                        rounds,
                    )
    with tempfile.TemporaryDirectory() as folder:
        flush = flush_seconds(Path(folder))
        name = "flush of one page (fsync), for comparison"
        yield Row(group, name, best, 1e6 * flush, "us", ours_ns=1e9 * flush)


def measure(
    group: str,
    name: str,
    best: str,
    actions: tuple[Callable[[], object], Callable[[], object]],
    pairs: int,
    rounds: int,
) -> Iterator[Row]:
    """Yield the ratios of CPU and elapsed time of the second action to the first."""
    plain, kept = actions
    kept()
    for clock, seconds in (("CPU time", cpu_seconds), ("time", wall_seconds)):
        times = [(seconds(plain), seconds(kept)) for _ in range(pairs)]
        ratios = [mine / own for own, mine in times]
        yield Row(
            group,
            f"{name}, {clock}",
            best,
            median(ratios),
            "x",
            None,
            min(ratios),
            max(ratios),
            median(mine for _, mine in times) / rounds * 1e9,
            median(own for own, _ in times) / rounds * 1e9,
            "the learner's own run",
        )
