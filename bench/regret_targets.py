"""Regret a round of private regression against stated targets, with the noise seeds of a machine.

Usage: python bench/regret_targets.py [--seeds 8] [--first-seed 0] [STREAM ...]

A row passes if its mean is at most 1.1 times the target and three standard errors more; below
0.003, at most the target, 0.0005 and three standard errors more. Exit code 1 if one does not.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpoco
from dpoco.datasets import linear_regression_stream
from dpoco.evaluation import best_fixed_decision

FloatArray = NDArray[np.float64]
EPSILONS = (None, 0.1, 1.0, 8.0)


class Target(NamedTuple):
    """Mean regret a round of eight seeds, and its standard error."""

    regret: float
    error: float = 0.0


# Without privacy, then for every epsilon; streams are named by kind, T, d and seed.
TARGETS = {
    "lin_10000_10_43": (
        Target(0.00008), Target(0.05686, 0.00284), Target(0.01176, 0.00077),
        Target(0.00219, 0.00016),
    ),
    "lin_100000_10_44": (
        Target(0.00001), Target(0.00955, 0.00081), Target(0.00124, 0.00010),
        Target(0.00020, 0.00002),
    ),
    "lin_50000_20_46": (
        Target(0.00003), Target(0.02364, 0.00105), Target(0.00399, 0.00015),
        Target(0.00069, 0.00002),
    ),
    "binary_50000_10_60": (
        Target(0.00033), Target(0.01538, 0.00062), Target(0.00246, 0.00013),
        Target(0.00062, 0.00002),
    ),
    "bimodal_50000_10_60": (
        Target(0.00045), Target(0.01857, 0.00155), Target(0.00289, 0.00022),
        Target(0.00077, 0.00005),
    ),
}  # fmt: skip


def regression(rounds: int, d: int, seed: int, noise: str) -> tuple[FloatArray, FloatArray]:
    """Return features and labels: of a linear law, or with labels 0/1 or noise of +-1/2."""
    stream = linear_regression_stream(rounds, d, seed=seed, target="gaussian")
    features, labels = stream.features, stream.labels
    if noise == "lin":
        return features, np.clip(labels, -1.0, 1.0)
    rng = np.random.default_rng(seed + 1)
    margins = features @ np.linalg.lstsq(features, labels, rcond=None)[0]
    if noise == "bimodal":
        return features, np.clip(margins + rng.choice([-0.5, 0.5], rounds), -1.0, 1.0)
    labels = (rng.random(rounds) < np.clip(0.25 + 0.5 * margins, 0.0, 1.0)) * 1.0
    constant = np.full((rounds, 1), math.sqrt(0.5))
    return np.hstack([features * math.sqrt(0.5), constant]), labels


def ridge(name: str) -> Callable[[float | None, int], float]:
    """Return the regret a round on a stream, of an epsilon and a seed."""
    kind, *numbers = name.split("_")
    features, labels = regression(*map(int, numbers), kind)
    rounds, d = features.shape
    domain, loss = dpoco.domains.LpBall(d), dpoco.losses.SquaredLoss(1.0, 1.0)
    least = best_fixed_decision(domain, loss, features, labels).average_loss

    def regret(epsilon: float | None, seed: int) -> float:
        budget = None if epsilon is None else dpoco.Budget(epsilon, 1.0 / (10 * rounds))
        learner = dpoco.oco.NoisyFTRL(
            domain, loss, horizon=rounds, budget=budget, statistics="quadratic",
            source=dpoco.random.Source.seeded(seed),
        )  # fmt: skip
        return learner.run(features, labels).average_loss - least

    return regret


def passes(mean: float, error: float, target: Target) -> bool:
    """Whether a measured mean keeps to its target."""
    slack = 3.0 * math.hypot(error, target.error)
    if target.regret < 0.003:
        return mean <= target.regret + 0.0005 + slack
    return mean <= 1.1 * target.regret + slack


def main() -> int:
    """Run the command; return 1 if a row misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="*", metavar="STREAM", help="of the table; all by default")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    missed = 0
    print("| stream | epsilon | regret | standard error | target | passes |")
    print("|---|---|---|---|---|---|")
    for name in arguments.streams or TARGETS:
        regret = ridge(name)
        for epsilon, target in zip(EPSILONS, TARGETS[name], strict=True):
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            found = [regret(epsilon, seed) for seed in (seeds if epsilon else seeds[:1])]
            error = float(np.std(found, ddof=1)) / math.sqrt(len(found)) if epsilon else 0.0
            mean = float(np.mean(found))
            kept = passes(mean, error, target)
            missed += not kept
            row = f"{mean:.5f} | {error:.5f} | {target.regret:.5f} | {'yes' if kept else 'NO'}"
            print(f"| {name} | {epsilon or 'no noise'} | {row} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
