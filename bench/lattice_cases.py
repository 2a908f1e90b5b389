"""Rows about sums on a lattice against sums in doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measurement import Row, compare, rate

import dpoco

GROUP = "Exact sums on a lattice (rounds per second of CPU time; the same in doubles)"
BUDGET = dpoco.Budget(1.0, 1e-6)


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    yield from _compare_normalised(pairs, shrink)
    for d in (5, 50, 1000):
        rounds = max(2000, 400_000 // (d * shrink))
        features = rng.normal(size=(rounds, d))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        labels = np.clip(rng.normal(size=rounds), -1.0, 1.0)
        for name, make in _makers(d, rounds, features, labels).items():
            for numerics in ("float", "lattice"):
                yield rate(GROUP, f"{name}, d = {d}, {numerics}", make(numerics), units=rounds,
                           repetitions=pairs, target=None, unit="rounds/s")  # fmt: skip


def _compare_normalised(pairs: int, shrink: int) -> Iterator[Row]:
    """Whole horizons, in turns: normalised sums make 32 changes an octave, and no more work."""
    for d in (10, 100, 1000):
        values = np.zeros((max(10_000, 4_000_000 // d) // shrink, d))
        for numerics in ("float", "lattice"):
            ours, theirs = (_whole(values, m, numerics) for m in ("blt_normalised", "blt"))
            yield compare(
                "Normalised against plain sums (ns per round)", f"d = {d}, {numerics}",
                ours, theirs, against="blt", units=len(values), pairs=pairs, target=0.97,
                instruction_set=dpoco.random.instruction_set(),
            )  # fmt: skip


def _whole(values: Any, method: str, numerics: str) -> Callable[[], Any]:
    rounds, d = values.shape
    total = dpoco.mechanisms.ContinualSum(
        d, horizon=rounds, budget=BUDGET, method=method, numerics=numerics, bound=1.0
    )
    start = total._engine.state()

    def run() -> Any:
        total._engine.restore(start)  # or there would be no rounds left
        return total.run(values)

    return run


def _makers(d: int, rounds: int, features: Any, labels: Any) -> dict[str, Callable[..., Any]]:
    common: dict[str, Any] = {"horizon": rounds, "budget": BUDGET}
    ball = dpoco.domains.LpBall(d, 2.0)

    def total(method: str, numerics: str) -> Callable[[], Any]:
        def run() -> Any:
            made = dpoco.mechanisms.ContinualSum(
                d, method=method, numerics=numerics, **{"bound": 1.0, **common}
            )
            return made.run(features)

        return run

    def frank_wolfe(numerics: str) -> Callable[[], Any]:
        def run() -> Any:
            made = dpoco.frank_wolfe.TreeFrankWolfe(
                ball, dpoco.losses.SquaredLoss(1.0, 1.0), numerics=numerics, **common
            )
            return made.run(features, labels)

        return run

    def leader(numerics: str) -> Callable[[], Any]:
        def run() -> Any:
            made = dpoco.oco.NoisyFTRL(
                ball, dpoco.losses.LinearLoss(1.0), numerics=numerics, **common
            )
            return made.run(features)

        return run

    losses = np.abs(features)

    def hedge(numerics: str) -> Callable[[], Any]:
        def run() -> Any:
            return dpoco.experts.PrefixHedge(d, numerics=numerics, **common).run(losses)

        return run

    def share(noise: str, numerics: str) -> Callable[[], Any]:
        def run() -> Any:
            made = dpoco.experts.BatchShare(
                d, noise=noise, batch=20, learning_rate=0.01, numerics=numerics, **common
            )
            return made.run(losses)

        return run

    def bandit(numerics: str) -> Callable[[], Any]:
        first = dpoco.bandits.LinUCB(
            2, d, numerics=numerics, **{"context_bound": 1.0, "reward_bound": 1.0, **common}
        )

        def run() -> Any:  # calibrated once: that takes as long as many rounds
            made = dpoco.bandits.LinUCB(
                2,
                d,
                plan=first.plan,
                **{"context_bound": 1.0, "reward_bound": 1.0, **common},
            )
            return made.run(features, np.stack([labels, -labels], axis=1))

        return run

    made: dict[str, Callable[..., Any]] = {
        "blt sum": lambda numerics: total("blt", numerics),
        "tree sum": lambda numerics: total("tree", numerics),
        "TreeFrankWolfe": frank_wolfe,
        "NoisyFTRL": leader,
        "PrefixHedge": hedge,
        "BatchShare, Gaussian": lambda numerics: share("gaussian", numerics),
        "BatchShare, Laplace": lambda numerics: share("laplace", numerics),
    }
    if d <= 50:  # quadratic statistics
        made["LinUCB"] = bandit
    return made
