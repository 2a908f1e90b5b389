"""Rows of the table for `dpoco.scale`: keyed rounds in one call against a loop over learners."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measurement import Row

import dpoco
from dpoco.journal import Journal
from dpoco.scale import KeyedPool

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
HORIZON = 10**7
KEYS, ROUNDS = 1000, 20_000


def tree_frank_wolfe() -> Any:
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(20, p=1.5),
        dpoco.losses.SquaredLoss(1.0, 1.0),
        horizon=HORIZON,
        budget=BUDGET,
    )


def prefix_hedge() -> Any:
    return dpoco.experts.PrefixHedge(10, horizon=HORIZON, budget=BUDGET)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def loop(pool: KeyedPool, keys: list[Any], arrays: tuple[Any, ...]) -> None:
    """The loop that a service would write without a pool, round by round."""
    learners = {key: pool[key] for key in set(keys)}
    for key, *record in zip(keys, *arrays, strict=True):
        learner = learners[key]
        learner.decide()
        learner.observe(*record)


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    return 0


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    """Speeds of keyed pools, as figures, and their advantage over a loop."""
    rng = np.random.default_rng(1)
    rounds = max(2 * KEYS, ROUNDS // shrink)
    keys = rng.integers(0, KEYS, rounds).tolist()
    records = (rng.normal(size=(rounds, 20)) / 8.0, rng.uniform(-1.0, 1.0, rounds))
    losses = (rng.uniform(size=(rounds, 10)),)
    best = dpoco.random.instruction_set()
    cases: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
        ("TreeFrankWolfe, d = 20", tree_frank_wolfe(), records),
        ("PrefixHedge, N = 10", prefix_hedge(), losses),
    )
    for name, make, arrays in cases:
        what = f"{KEYS} keys, batches of {rounds}: {name}"
        pool, single = KeyedPool(make, max_keys=10**6), KeyedPool(make)
        pool.process(keys, *arrays)
        single.process(keys, *arrays)
        play, one_by_one = (
            partial(pool.process, keys, *arrays),
            partial(loop, single, keys, arrays),
        )
        times = [(seconds(play), seconds(one_by_one)) for _ in range(pairs)]
        speed = rounds / median(own for own, _ in times)
        yield Row("KeyedPool against a loop over learners", what, best, *ratio(times))
        yield Row("KeyedPool, rounds a second", what, best, speed, "/s", 200_000.0)
        if Path("/proc/self/status").exists():
            before = resident()
            pool.register(range(KEYS, 5 * KEYS))
            memory = (resident() - before) / (4 * KEYS)
            yield Row("KeyedPool, memory a key", name, best, memory / 1024.0, "KiB")
        with (
            tempfile.TemporaryDirectory() as folder,
            Journal(Path(folder) / "releases.db") as journal,
        ):
            kept = KeyedPool(make, journal=journal)
            kept.process(keys, *arrays)
            spent = [seconds(partial(kept.process, keys, *arrays)) for _ in range(pairs)]
            yield Row(
                "KeyedPool with a journal, rounds a second",
                what,
                best,
                rounds / median(spent),
                "/s",
            )
    if shrink == 1:  # a cluster takes its time to start
        yield from ray_rows(pairs, keys, cases[0])


def ratio(times: list[tuple[float, float]]) -> tuple[float, str]:
    return median(other / own for own, other in times), "x"


def ray_rows(pairs: int, keys: list[Any], case: tuple[str, Any, tuple[Any, ...]]) -> Iterator[Row]:
    """Two shards with journals, if Ray is there."""
    try:
        import ray
    except ImportError:
        return
    name, make, arrays = case
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            dpoco.scale.RayPool(make, shards=2, journal_directory=folder) as pool,
        ):
            pool.process(keys, *arrays)
            spent = [seconds(partial(pool.process, keys, *arrays)) for _ in range(pairs)]
            yield Row(
                "RayPool with journals, 2 shards, rounds a second",
                f"{KEYS} keys, batches of {len(keys)}: {name}",
                dpoco.random.instruction_set(),
                len(keys) / median(spent),
                "/s",
                20_000.0,
            )
    finally:
        ray.shutdown()
