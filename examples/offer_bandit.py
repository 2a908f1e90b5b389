"""Which of five offers to show to which visitor, learned from private visits: regret and its price.

Usage: python examples/offer_bandit.py [--rounds N] [--runs R] [--output FILE] [--quick]

A simulated shop: visitors have 20 traits in [-1, 1], the earnings of an offer are linear in four of
them plus noise, and the shop sees only the earnings of the offer that it showed. The offers that
other visitors see are private for replacing one visitor. A learner should beat random offers. The
right panel shows shops with fewer visitors. Regret is the expected earnings of the best offers
minus those of the shown ones.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.environments import LinearWorld, play_bandit
from dpoco.plotting import STYLE, new_figure, plot_regret

OFFERS, TRAITS = 5, 20
PLAYERS = {
    "random offer": ("random", None),
    "sparse bandit, epsilon = 1": ("sparse", 1.0),
    "sparse bandit, epsilon = 4": ("sparse", 4.0),
    "sparse bandit, without privacy": ("sparse", None),
    "LinUCB, epsilon = 1": ("LinUCB", 1.0),
    "LinUCB, epsilon = 4": ("LinUCB", 4.0),
    "LinUCB, without privacy": ("LinUCB", None),
}


class Random:
    """Shows any offer, whatever happens."""

    def __init__(self, run: int) -> None:
        self.generator = np.random.default_rng(run)

    def decide(self, context: np.ndarray) -> int:
        return int(self.generator.integers(OFFERS))

    def observe(self, reward: float) -> None: ...


def build(name: str, world: LinearWorld, source=None):
    kind, epsilon = PLAYERS[name]
    options = {"horizon": world.horizon, "reward_bound": world.reward_bound, "source": source}
    options["budget"] = None if epsilon is None else dpoco.Budget(epsilon, 1e-6)
    if kind == "sparse":
        return HighDimensionalBandit(
            OFFERS, LpBall(TRAITS, p=1.0, radius=1.0), context_bound=1.0, **options
        )
    options |= {"reward_noise": 0.1, "exploration": 1.0}
    return LinUCB(OFFERS, TRAITS, context_bound=TRAITS**0.5, **options)


def play(name: str, world: LinearWorld, run: int):
    if name == "random offer":
        world.reset()
        return play_bandit(Random(run), world)
    source = dpoco.evaluation.SeedTree(0).child(name, run).source()
    return build(name, world, source).run(world.contexts, world.rewards)


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", default="offer_bandit.png")
    parser.add_argument("--quick", action="store_true", help="10 000 visitors, one run")
    options = parser.parse_args(arguments)
    runs, rounds = (1, 10_000) if options.quick else (options.runs, options.rounds)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    table = {name: [] for name in PLAYERS}
    horizons = sorted({max(100, rounds // part) for part in (100, 30, 10, 3, 1)})
    for horizon in horizons:
        world = LinearWorld(OFFERS, TRAITS, horizon, norm=np.inf, sparsity=4, seed=0)
        traces = {name: [play(name, world, run) for run in range(runs)] for name in PLAYERS}
        for name, played in traces.items():
            ends = [trace.pseudo_regret(world.means)[-1] for trace in played]
            table[name].append(np.median(ends) / horizon)
    figure = new_figure((8.4, 9.4))
    left, right = figure.subplots(2, 1)
    plot_regret(traces, comparator=lambda trace: trace.pseudo_regret(world.means), ax=left)
    print(f"{'regret per visitor':32}" + "".join(f"{horizon:>10,}" for horizon in horizons))
    for name, line in zip(PLAYERS, left.get_lines(), strict=False):
        print(f"{name:32}" + "".join(f"{value:10.4f}" for value in table[name]))
        looks = {"color": line.get_color(), "linestyle": line.get_linestyle(), "marker": "o"}
        right.loglog(horizons, table[name], label=name, **looks)
    right.set(xlabel="visitors in all", ylabel="regret per visitor", title="smaller shops")
    right.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    print(f"{build('sparse bandit, epsilon = 1', world).guarantee}\nwrote {options.output}")
    figure.savefig(options.output)


if __name__ == "__main__":
    main()
