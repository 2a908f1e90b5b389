"""Regret of the private bandits on linear worlds with contexts in a cube, as a Markdown table.

Usage: python examples/bandit_regret.py [--rows N] [--worlds N] [--quick]

Mean regret per round, in units of the reward, over the whole horizon; delta = 1e-6; the mean of
several worlds. Coefficients of an arm have l1 norm 1, contexts are uniform in [-1, 1]^d.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.environments import LinearWorld
from dpoco.random import Source

# Arms, dimension, coefficients that are not zero, rounds.
ROWS = [
    (2, 10, 10, 10_000),
    (2, 10, 10, 50_000),
    (2, 50, 50, 10_000),
    (2, 50, 50, 100_000),
    (2, 50, 5, 100_000),
    (5, 50, 5, 100_000),
    (2, 500, 5, 100_000),
]
EPSILONS = (1.0, 8.0)
HEADER = ["K", "d", "not zero", "T", "uniform play"]
HEADER += [*(f"epsilon = {e:g}" for e in EPSILONS), "no privacy"]
HEADER += [f"LinUCB, epsilon = {e:g}" for e in EPSILONS]
_LARGEST_LINUCB = 100  # d x d matrices: beyond, noise is all there is


def regret(world: LinearWorld, learner: HighDimensionalBandit | LinUCB) -> float:
    """Return the mean regret per round of a learner that plays the whole world."""
    trace = learner.run(world.contexts, world.rewards)
    return float(trace.pseudo_regret(world.means)[-1]) / world.horizon


def measure(world: LinearWorld, seed: int) -> list[float]:
    """Return the columns of the table that are measured, NaN where a learner was left out."""
    arms, d, rounds = world.arms, world.dimension, world.horizon
    common = {"horizon": rounds, "reward_bound": world.reward_bound}
    budgets = [dpoco.Budget(epsilon, 1e-6) for epsilon in EPSILONS]
    out = [float((world.means.max(axis=1) - world.means.mean(axis=1)).mean())]
    for budget in [*budgets, None]:
        ball = LpBall(d, p=1.0, radius=1.0)
        common |= {"budget": budget, "source": Source.seeded(seed)}
        out.append(regret(world, HighDimensionalBandit(arms, ball, **common)))
    for budget in budgets:
        if d > _LARGEST_LINUCB:
            out.append(np.nan)
            continue
        common |= {"budget": budget, "source": Source.seeded(seed)}
        rival = LinUCB(arms, d, context_bound=float(np.sqrt(d)), reward_noise=0.1, **common)
        out.append(regret(world, rival))
    return out


def table(rows: int, worlds: int) -> Iterator[str]:
    """Yield the lines of the table, the first `rows` of its rows."""
    yield "| " + " | ".join(HEADER) + " |"
    yield "|" + "---|" * len(HEADER)
    for arms, d, sparsity, rounds in ROWS[:rows]:
        measured = [
            measure(LinearWorld(arms, d, rounds, norm=np.inf, sparsity=sparsity, seed=seed), seed)
            for seed in range(worlds)
        ]
        means = ["-" if np.isnan(x) else f"{x:.2g}" for x in np.mean(measured, axis=0)]
        yield "| " + " | ".join([str(arms), str(d), str(sparsity), f"{rounds:,}", *means]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=len(ROWS))
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one row, one world")
    arguments = parser.parse_args()
    rows, worlds = (1, 1) if arguments.quick else (arguments.rows, arguments.worlds)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    for line in table(rows, worlds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
