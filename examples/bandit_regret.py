"""Regret of the private bandits on linear worlds with contexts in a cube: a table and a figure.

Usage: python examples/bandit_regret.py [--rows N] [--worlds N] [--output FILE] [--quick]

Mean regret per round, in units of the reward, over the whole horizon; delta = 1e-6; the mean of
several worlds. Coefficients of an arm have l1 norm 1, contexts are uniform in [-1, 1]^d.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.environments import LinearWorld
from dpoco.plotting import STYLE, new_figure
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
SPARSE = {"epsilon = 1": 1.0, "epsilon = 8": 8.0, "no privacy": None}  # HighDimensionalBandit
LINUCB = {"LinUCB, epsilon = 1": 1.0, "LinUCB, epsilon = 8": 8.0}
PLAYERS = ["uniform play", *SPARSE, *LINUCB]
LOOKS = [("|", "k"), ("o", "#D55E00"), ("^", "#0072B2"), ("s", "#009E73")]
LOOKS += LOOKS[1:3]  # hollow: LinUCB
_LARGEST_LINUCB = 100  # d x d matrices: beyond, noise is all there is


def build(name: str, world: LinearWorld, seed: int | None = None):
    arms, d, epsilon = world.arms, world.dimension, (SPARSE | LINUCB)[name]
    budget = None if epsilon is None else dpoco.Budget(epsilon, 1e-6)
    options = {"horizon": world.horizon, "reward_bound": world.reward_bound, "budget": budget}
    options["source"] = None if seed is None else Source.seeded(seed)
    if name in SPARSE:
        return HighDimensionalBandit(
            arms, LpBall(d, p=1.0, radius=1.0), context_bound=1.0, **options
        )
    options |= {"reward_noise": 0.1, "exploration": 1.0}
    return LinUCB(arms, d, context_bound=float(np.sqrt(d)), **options)


def regret(name: str, world: LinearWorld, seed: int) -> float:
    """Return the mean regret per round over the whole world, NaN if the player is left out."""
    if name == "uniform play":
        return float((world.means.max(axis=1) - world.means.mean(axis=1)).mean())
    if name in LINUCB and world.dimension > _LARGEST_LINUCB:
        return np.nan
    trace = build(name, world, seed).run(world.contexts, world.rewards)
    return float(trace.pseudo_regret(world.means)[-1]) / world.horizon


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=len(ROWS))
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--output", default="bandit_regret.png")
    parser.add_argument("--quick", action="store_true", help="one row, one world")
    options = parser.parse_args(arguments)
    rows, runs = (1, 1) if options.quick else (options.rows, options.worlds)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    means = []
    print("| " + " | ".join(["K", "d", "not zero", "T", *PLAYERS]) + " |")
    print("|" + "---|" * (4 + len(PLAYERS)))
    for arms, d, sparsity, rounds in ROWS[:rows]:
        shape = {"norm": np.inf, "sparsity": sparsity}
        worlds = [LinearWorld(arms, d, rounds, **shape, seed=seed) for seed in range(runs)]
        all_runs = [[regret(name, w, i) for name in PLAYERS] for i, w in enumerate(worlds)]
        means.append(np.mean(all_runs, axis=0))
        shown = ["-" if np.isnan(x) else f"{x:.2g}" for x in means[-1]]
        print("| " + " | ".join([f"{arms} | {d} | {sparsity} | {rounds:,}", *shown]) + " |")
    figure = new_figure((8.4, 1.8 + 0.45 * len(means)))
    axes = figure.subplots()
    for name, values, (marker, colour) in zip(PLAYERS, np.transpose(means), LOOKS, strict=True):
        fill = "none" if name in LINUCB else colour
        looks = {"marker": marker, "markersize": 9, "color": colour, "markerfacecolor": fill}
        axes.semilogx(values, range(len(means)), linestyle="none", label=name, **looks)
    labels = [f"K = {k}, d = {d} ({s} not zero), T = {t:,}" for k, d, s, t in ROWS[:rows]]
    axes.set_yticks(range(len(means)), labels)
    axes.set(xlabel="mean regret per round", ylim=(len(means) - 0.5, -0.5))
    axes.grid(True, color="#DDDDDD")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(options.output)
    print(f"{build('epsilon = 1', worlds[0]).guarantee}\nwrote {options.output}")


if __name__ == "__main__":
    main()
