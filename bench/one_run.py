"""How often one-run audits refute: correct learners, and learners with half the noise they claim.

Prints the table of ``docs/audit.md``. Each row plays `--runs` runs of NoisyFTRL, T = 10,000 at
(4, 1e-6): ``python bench/one_run.py --runs 1000``.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np

from dpoco import Budget
from dpoco.audit import OneRunAudit, false_refutation
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

HORIZON, BUDGET, CONFIDENCE = 10_000, Budget(4.0, 1e-6), 0.95


@functools.cache
def arguments(dimension: int) -> tuple[Any, Any]:
    """Return a learner's calibrated parameters, and those with half the noise."""
    from dataclasses import replace

    domain, loss = LpBall(dimension, 2.0), LinearLoss(1.0)
    honest = NoisyFTRL(domain, loss, horizon=HORIZON, budget=BUDGET).plan
    own = honest.mechanism
    return honest, replace(
        honest, mechanism=replace(own, scale=0.5 * own.scale, grid=0.5 * own.grid)
    )


def make(dimension: int, source: Source, half: bool = False) -> NoisyFTRL:
    """Return a learner with the noise that it should have, or with half of it."""
    parameters = arguments(dimension)[int(half)]
    return NoisyFTRL(
        LpBall(dimension, 2.0), LinearLoss(1.0), horizon=HORIZON, budget=None,
        plan=parameters, source=source,
    )  # fmt: skip


def make_audit(dimension: int, canaries: int) -> OneRunAudit:
    """Return an audit with new coins; the other records are silent."""
    axes = np.eye(dimension)[np.arange(canaries) % dimension]
    rounds = np.arange(canaries) * (HORIZON - 1) // canaries
    stream = np.zeros((HORIZON, dimension))
    return OneRunAudit(
        functools.partial(make, dimension), stream, rounds, axes, -axes, confidence=CONFIDENCE
    )


def row(dimension: int, canaries: int, runs: int) -> str:
    """Return a row: the power that was stated, and what was found in so many runs each."""
    audit = make_audit(dimension, canaries)
    power, found, weak = audit.power, {}, 0
    for half in (False, True):
        found[half] = 0
        for seed in range(runs):
            audit._coins = np.random.default_rng([seed, half]).random(canaries) < 0.5
            (stream,) = audit.records(np.zeros((HORIZON, dimension)))
            learner = make(dimension, Source.seeded(10_000 + seed), half)
            scores = audit.scores(learner.run(stream).decisions)
            guessed = np.argsort(-np.abs(scores), kind="stable")[: power.guesses]
            correct = int(np.sum((scores[guessed] > 0.0) == audit._coins[guessed]))
            found[half] += correct >= power.needed
            if half and correct >= power.needed:
                claim = (BUDGET.epsilon, BUDGET.delta)
                chance = false_refutation(claim, canaries, power.guesses, correct)
                weak += chance <= 1.0 - CONFIDENCE
    return (
        f"| {dimension} | {canaries} | {power.guesses} | {power.needed} | "
        f"{power.probability:.3f} | {found[True]} of {runs} | {weak} of {runs} | "
        f"{found[False]} of {runs} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print(
        "| dimension | canaries | guesses | right ones that refute | stated power | "
        "half the noise: refuted by the curve | by (epsilon, delta) alone | "
        "correct learner refuted |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for dimension, canaries in ((20, 1000), (20, 2500), (100, 1000), (100, 2500)):
        print(row(dimension, canaries, runs), flush=True)


if __name__ == "__main__":
    main()
