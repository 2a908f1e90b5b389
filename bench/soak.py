"""Soak: very long lives of one learner, and many short ones, with the memory watched.

Usage: python bench/soak.py [--rounds 100000000] [--cycles 10000] [--limit 2.0] [--json FILE]

Exit code 1 if the resident memory of any case grew by more than `--limit` MiB between the end of
its warm-up (the first 2 % of the rounds, 10 % of the cycles) and its end. Needs Linux (/proc).
Times are wall times, on a machine with whatever else it does.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpoco

FloatArray = NDArray[np.float64]
BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
PURE = dpoco.Budget(epsilon=1.0, delta=0.0)
CHUNK = 2**17  # rounds per call; arrays that every call draws stay small
DIMENSION = 4
EXPERTS = 8
WARM_UP = 0.02
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Life:
    """One case: `count` rounds or cycles, and the memory when warm, at most, and at the end."""

    name: str
    unit: str
    count: int
    seconds: float
    warm: int
    highest: int
    end: int
    state: tuple[int, int] | None = None  # bytes of a saved state, when warm and at the end

    @property
    def growth(self) -> int:
        return self.end - self.warm

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"growth": self.growth, "rate": self.count / self.seconds}


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_bytes(learner: Any) -> int:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state"
        learner.save(path)
        return path.stat().st_size


def live(name: str, learner: Any, play: Callable[[int], None], rounds: int) -> Life:
    """Play `rounds` rounds of one learner in chunks; `play` consumes the given number."""
    done, warm, highest, state = 0, 0, 0, 0
    start = time.perf_counter()
    while done < rounds:
        count = min(CHUNK, rounds - done)
        play(count)
        done += count
        now = resident()
        highest = max(highest, now)
        if not warm and done >= min(rounds, max(WARM_UP * rounds, 8 * CHUNK)):
            gc.collect()
            warm, state = resident(), state_bytes(learner)
            highest = warm
    seconds = time.perf_counter() - start
    gc.collect()
    if learner.round != rounds:
        raise RuntimeError(f"{name}: {learner.round} rounds counted, {rounds} played")
    sizes = (state, state_bytes(learner))
    return Life(name, "rounds", rounds, seconds, warm, highest, resident(), sizes)


def cycle(name: str, once: Callable[[], object], cycles: int) -> Life:
    """Repeat `once`."""
    warm, highest = 0, 0
    start = time.perf_counter()
    for done in range(1, cycles + 1):
        once()
        if done % 64 == 0:
            highest = max(highest, resident())
        if not warm and done >= 5 * WARM_UP * cycles:
            gc.collect()
            warm = highest = resident()
    seconds = time.perf_counter() - start
    gc.collect()
    return Life(name, "cycles", cycles, seconds, warm, highest, resident())


# ---- learners -----------------------------------------------------------------------------------


def tree(horizon: int | None) -> dpoco.frank_wolfe.TreeFrankWolfe:
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(dimension=DIMENSION, p=2.0, radius=1.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=horizon,
        budget=BUDGET,
    )


def hedge(horizon: int) -> dpoco.experts.PrefixHedge:
    return dpoco.experts.PrefixHedge(EXPERTS, horizon=horizon, budget=BUDGET)


def tracker() -> dpoco.experts.ObliviousTracker:
    return dpoco.experts.ObliviousTracker(
        EXPERTS, horizon=None, budget=PURE, prior="share", share_rate=1e-4
    )


def records(learner: Any) -> Callable[[int], None]:
    generator = np.random.default_rng(1)

    def play(count: int) -> None:
        features = generator.standard_normal((count, DIMENSION), dtype=np.float64)
        labels = (features[:, 0] > 0.0).astype(float)
        learner.run(features, labels, record_decisions=False)

    return play


def one_by_one(learner: Any) -> Callable[[int], None]:
    generator = np.random.default_rng(2)

    def play(count: int) -> None:
        features = generator.standard_normal((count, DIMENSION))
        for row in features:
            learner.decide()
            learner.observe(row, 1.0)

    return play


def losses(learner: Any) -> Callable[[int], None]:
    generator = np.random.default_rng(3)

    def play(count: int) -> None:
        learner.run(generator.random((count, EXPERTS)))

    return play


def lives(rounds: int) -> list[tuple[str, Callable[[], Any], Callable[[Any], Any], int]]:
    return [
        ("TreeFrankWolfe, d = 4, run", lambda: tree(rounds), records, rounds),
        ("TreeFrankWolfe, endless, run", lambda: tree(None), records, rounds),
        ("PrefixHedge, 8 experts, run", lambda: hedge(rounds), losses, rounds),
        ("ObliviousTracker, 8 experts, endless, run", tracker, losses, rounds),
        (
            "TreeFrankWolfe, decide + observe",
            lambda: tree(max(1, rounds // 100)),
            one_by_one,
            max(1, rounds // 100),
        ),
    ]


def loops(cycles: int, directory: Path) -> list[tuple[str, Callable[[], object], int]]:
    path = directory / "state"
    learner = tree(10**6)
    learner.decide()
    learner.observe(np.ones(DIMENSION), 1.0)
    experts = tracker()
    parameters = learner.plan

    def create() -> None:
        dpoco.frank_wolfe.TreeFrankWolfe(
            learner.domain, learner.loss, horizon=10**6, budget=None, plan=parameters
        ).decide()

    def save_and_load() -> None:
        learner.save(path)
        dpoco.load(path)

    def pickle_again() -> None:
        pickle.loads(pickle.dumps(learner))
        pickle.loads(pickle.dumps(experts))

    return [
        ("create, decide, destroy", create, cycles),
        ("save and load", save_and_load, max(1, cycles // 5)),
        ("pickle and unpickle, two learners", pickle_again, cycles),
    ]


def soak(rounds: int, cycles: int, report: Callable[[Life], None]) -> list[Life]:
    found = []
    for name, make, feed, count in lives(rounds):
        learner = make()
        found.append(live(name, learner, feed(learner), count))
        report(found[-1])
        del learner
    with tempfile.TemporaryDirectory() as directory:
        for name, once, count in loops(cycles, Path(directory)):
            found.append(cycle(name, once, count))
            report(found[-1])
    return found


def row(life: Life) -> str:
    def mebi(value: int) -> str:
        return f"{value / MEBIBYTE:.1f}"

    state = "" if life.state is None else f"{life.state[0]} -> {life.state[1]}"
    return (
        f"| {life.name} | {life.count:,} {life.unit} | {life.seconds:.0f} "
        f"| {life.count / life.seconds:,.0f} | {mebi(life.warm)} | {mebi(life.highest)} "
        f"| {mebi(life.end)} | {life.growth / MEBIBYTE:+.2f} | {state} |"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Long lives of learners, with memory watched.")
    parser.add_argument("--rounds", type=int, default=10**8, help="rounds of one learner")
    parser.add_argument("--cycles", type=int, default=10_000, help="creations, copies")
    parser.add_argument("--limit", type=float, default=2.0, metavar="MIB", help="growth allowed")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    options = parser.parse_args(arguments)
    print("| life | length | s | per s | MiB warm | highest | end | growth | state, bytes |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    found = soak(options.rounds, options.cycles, lambda life: print(row(life), flush=True))
    grown = [life.name for life in found if life.growth > options.limit * MEBIBYTE]
    print(f"\ngrew by more than {options.limit:g} MiB: {', '.join(grown) or 'none'}")
    if options.json:
        text = json.dumps({"rows": [life.to_dict() for life in found]}, indent=2)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
