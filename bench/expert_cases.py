"""Rows of the table for the learners of experts, and the loops they are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy_loops
from measurement import Row, available_sets, compare, cpu_seconds, rate
from numpy.typing import NDArray

import dpoco
from dpoco import experts, oco
from dpoco.accounting import continual_sum, prefix_hedge

try:
    import numba_hedge
except ImportError:  # the extra `bench` is not installed: its rows are left out
    numba_hedge = None  # type: ignore[assignment]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
ROUNDS = 100_000  # that the compared learners are calibrated for


class TreeHedge:
    """Hedge on a private binary tree, round by round, as a NumPy user writes it."""

    def __init__(self, n: int, *, scale: float, eta: float, seed: int = 1) -> None:
        self._sum = numpy_loops.Tree(n, scale=scale, bound=np.inf, seed=seed)
        self._eta = eta
        self._generator = np.random.default_rng(seed)
        self._decision = 0

    def run(self, losses: FloatArray) -> tuple[FloatArray, IntArray]:
        """Losses known beforehand: all sums, weights and draws can be vectorised over rounds."""
        block = max(1, 2**18 // losses.shape[1])
        own = np.empty(len(losses))
        played = np.empty(len(losses), dtype=np.int64)
        for first in range(0, len(losses), block):
            rows = np.clip(losses[first : first + block], 0.0, 1.0)
            sums = self._sum.run(rows)
            sums -= sums.min(axis=1, keepdims=True)
            sums *= -self._eta
            weights = np.exp(sums, out=sums)
            np.cumsum(weights, axis=1, out=weights)
            u = self._generator.random(len(rows)) * weights[:, -1]
            drawn = (weights < u[:, None]).sum(axis=1)
            decisions = np.concatenate([[self._decision], drawn[:-1]])
            self._decision = int(drawn[-1])
            part = slice(first, first + len(rows))
            played[part] = decisions
            own[part] = rows[np.arange(len(rows)), decisions]
        return own, played


def make_losses(rounds: int, n: int) -> FloatArray:
    generator = np.random.default_rng(n)
    return generator.random((rounds, n)) * np.linspace(0.8, 1.0, n)


def tree_scale(n: int) -> float:
    """The noise of a tree at the same budget, horizon and sensitivity."""
    p = prefix_hedge.calibrate(n, horizon=ROUNDS, budget=BUDGET, sum_method="tree")
    return p.mechanism.scale


def hedge_rows(pairs: int, shrink: int) -> Iterator[Row]:
    sets = available_sets()
    chosen = [name for name in sets if name == "avx2" or name == sets[0]]
    for n, targets in ((1000, (1.3, 3.0)), (10, (None, None))):
        rounds = (2000 if n == 1000 else 5000) // shrink
        losses = make_losses(rounds, n)
        p = prefix_hedge.calibrate(n, horizon=ROUNDS, budget=BUDGET)
        scale, eta = tree_scale(n), p.tuning.learning_rate
        competitors: list[tuple[str, Any, float | None]] = []
        if numba_hedge is not None:
            noise, compiled = numba_hedge.fastest(n, scale, eta, losses)
            competitors.append((f"Numba, tree, {noise}", compiled, targets[0]))
        competitors.append(("NumPy, tree", TreeHedge(n, scale=scale, eta=eta), targets[1]))
        for against, theirs, target in competitors:
            for name in chosen:
                ours = experts.PrefixHedge(n, horizon=ROUNDS, budget=BUDGET, plan=p)
                yield compare(
                    f"PrefixHedge.run, calibrated for {ROUNDS:,} rounds (ns per round)",
                    f"N = {n}, {p.mechanism.factorisation.kind}",
                    partial(ours.run, losses),
                    partial(theirs.run, losses),
                    against=against,
                    units=rounds,
                    pairs=pairs,
                    instruction_set=name,
                    target=target if name == sets[0] else None,
                )
        worst = scale * continual_sum.worst_row_norm("tree", ROUNDS - 1)
        own = p.mechanism.scale * continual_sum.worst_row_norm(
            p.mechanism.factorisation, ROUNDS - 1
        )
        yield Row(
            "PrefixHedge: noise of the same budget, binary tree / ours", f"N = {n}", "",
            worst / own, "x", 1.0,
        )  # fmt: skip


def long_rows(shrink: int) -> Iterator[Row]:
    """Whole horizons of 1e6 rounds, one repetition each."""
    rounds = 10**6 // shrink
    title = f"Long horizons, T = {rounds:,}: rounds per second of CPU time"
    cases: list[tuple[str, int, dict[str, Any], float]] = [
        ("ShiftDetector", 100, {"expected_shifts": 5}, 1e5),
        ("ObliviousTracker", 1000, {"switches": 5}, 1e6 / 60.0),
        ("BatchShare", 100, {"switches": 5}, 1e5),
        ("PrefixHedge", 100, {}, 1e5),
        ("EpochSelector", 100, {}, 1e5),
    ]
    for name, n, options, target in cases:
        learner = getattr(experts, name)(n, horizon=rounds, budget=BUDGET, **options)
        block = make_losses(min(rounds, 20_000_000 // n // 10), n)

        def whole(learner: Any = learner, block: FloatArray = block, rounds: int = rounds) -> None:
            for first in range(0, rounds, len(block)):
                learner.run(block[: min(len(block), rounds - first)])

        seconds = cpu_seconds(whole)
        yield Row(
            title, f"{name}, N = {n}", dpoco.random.instruction_set(), rounds / seconds,
            "rounds/s", target, ours_ns=1e9 * seconds / rounds,
        )  # fmt: skip


def lipschitz_rows(pairs: int, shrink: int) -> Iterator[Row]:
    title = "LipschitzLearner: rounds per second of CPU time, arrays of values"
    line = dpoco.domains.Box([0.0], [1.0])
    square = dpoco.domains.Box([0.0, 0.0], [1.0, 1.0])
    for name, domain, resolution, horizon, target in (
        ("1-D, 2^16 points", line, 2**16, 10**5, 1e5 / 600.0),
        ("2-D, 2^8 x 2^8 points", square, (2**8, 2**8), 10**4, 1e4 / 600.0),
    ):
        learner = oco.LipschitzLearner(
            domain, lipschitz=1.0, horizon=horizon, budget=BUDGET, resolution=resolution
        )
        count = max(2, (60 if len(learner.net[0]) == 1 else 30) // shrink)
        center = np.random.default_rng(1).random((count, 1, learner.net.shape[1]))
        values = np.linalg.norm(learner.net[None] - center, axis=2)
        yield rate(
            title,
            name,
            partial(learner.run, values),
            units=count,
            repetitions=min(pairs, 7),
            target=target,
        )


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitors()
    yield from hedge_rows(pairs, shrink)
    yield from long_rows(shrink)
    yield from lipschitz_rows(pairs, shrink)


def check_competitors() -> None:
    """Raise unless, without noise, the competitors' sums lead to the best expert as ours do."""
    losses = make_losses(400, 5)
    losses[:, 3] *= 0.2
    rivals: list[Any] = [TreeHedge(5, scale=0.0, eta=5.0)]
    if numba_hedge is not None:
        rivals += [
            numba_hedge.Hedge(5, scale=0.0, eta=5.0, noise=noise)
            for noise in numba_hedge.Hedge.NOISE
        ]
    for rival in rivals:
        own, played = rival.run(losses)
        np.testing.assert_array_equal(own, losses[np.arange(400), played])
        np.testing.assert_array_equal(played[100:], 3)
