"""Measured KL-risk of the locally private learners on random classes: the table of docs/local.md.

Run ``python bench/local_risks.py --classes 16``; about a minute. Not private: it knows the truth.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpoco.environments import simulate_local
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.random import Source

FloatArray = NDArray[np.float64]
EPSILONS = (0.5, 1.0, 4.0)
LEARNERS = {
    "hedge": {"learner": "hedge"},
    "posterior": {},
    "interactive": {"interactive": True},
}


def worlds(
    count: int, labels: int, contexts: int, classes: int, rounds: int
) -> Iterator[tuple[FloatArray, NDArray[np.int64] | None, int, NDArray[np.int64]]]:
    """Random classes, a true hypothesis of each, and a stream of contexts and labels."""
    rng = np.random.default_rng([count, labels, contexts])
    for _ in range(classes):
        shape = (contexts, count) if contexts > 1 else (count,)
        table = rng.dirichlet(np.ones(labels), size=shape)
        truth = int(rng.integers(count))
        places = rng.integers(0, contexts, size=rounds) if contexts > 1 else None
        laws = table[None, truth] if places is None else table[:, truth]
        edges = np.cumsum(laws, axis=1)[np.zeros(rounds, int) if places is None else places]
        draws = (rng.random((rounds, 1)) >= edges[:, :-1]).sum(axis=1)
        yield table, places, truth, draws


def ignore_reports(
    table: FloatArray, places: NDArray[np.int64] | None, truth: int, rounds: int
) -> float:
    """KL-risk of uniform weights."""
    tables = table[None] if table.ndim == 2 else table
    mean = tables.mean(axis=1)
    each = np.sum(tables[:, truth] * np.log(tables[:, truth] / mean), axis=1)
    return float(rounds * each[0] if places is None else each[places].sum())


def row(count: int, labels: int, contexts: int, classes: int, rounds: int) -> str:
    found: dict[tuple[str, float], list[float]] = {}
    idle = []
    for number, (table, places, truth, stream) in enumerate(
        worlds(count, labels, contexts, classes, rounds)
    ):
        idle.append(ignore_reports(table, places, truth, rounds))
        hypotheses = Hypotheses(table)
        for epsilon in EPSILONS:
            for name, build in LEARNERS.items():
                server = DistributionLearner(
                    hypotheses, epsilon=epsilon, horizon=rounds, public_seed=number, **build
                )
                noise = Source.seeded(number)
                trace = simulate_local(server, stream, places, truth=truth, source=noise)
                found.setdefault((name, epsilon), []).append(trace.kl_risk)
    cells = [f"{count}, {labels}" + (f", {contexts} contexts" if contexts > 1 else "")]
    cells += [" / ".join(f"{epsilon:g}" for epsilon in EPSILONS), f"{np.mean(idle):.0f}"]
    for name in LEARNERS:
        means = [float(np.mean(found[name, epsilon])) for epsilon in EPSILONS]
        cells.append(" / ".join(f"{mean:.{1 if mean < 10 else 0}f}" for mean in means))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10_000)
    options = parser.parse_args()
    print("| K, M | epsilon | ignore | hedge | posterior | posterior, interactive |")
    print("|---|---|---|---|---|---|")
    for count, labels, contexts, share in (
        (2, 4, 1, 1), (8, 16, 1, 1), (8, 8, 50, 1), (8, 1000, 1, 2), (64, 64, 1, 2),
    ):  # fmt: skip
        classes = max(1, math.ceil(options.classes / share))
        print(row(count, labels, contexts, classes, options.rounds), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
