"""A recommender that protects its visitors, not their visits: what each budget promises and earns.

Usage: python examples/recommender_people.py [--rounds N] [--runs R] [--output FILE] [--quick]

The simulated shop of ``offer_bandit.py``, but visitors come back: each person comes about 20 times,
and of each at most 10 visits are used, at least a fortieth of all visits apart. The offers to all
others may not show who came, in any of these visits. The program compares three budgets of
epsilon = 2: for a visit, which is the wrong question; for a group of 10 visits; and for a person.
Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np
from offer_bandit import OFFERS, Random

import dpoco
from dpoco.accounting import gaussian
from dpoco.bandits import LinUCB
from dpoco.environments import LinearWorld, play_bandit
from dpoco.plotting import STYLE, new_figure

TRAITS, VISITS, EPSILON, DELTA = 5, 20, 2.0, 1e-6
MOST = 10  # visits of a person that are used


def rule(world):
    return dpoco.Participation(MOST, world.horizon // 40)


def budget_for(unit):
    """Return the budget of a visit, of ten of them as a group, or of a person; None: no privacy."""
    if unit == "no privacy":
        return None
    if unit == "a group":  # ten visits have ten times the mu of one
        mu = gaussian.gaussian_mu(EPSILON, DELTA) / MOST
        return dpoco.Budget(gaussian.gaussian_epsilon(mu, DELTA), DELTA)
    return dpoco.Budget(EPSILON, DELTA)


def recommender(unit, world, source=None):
    """Return a learner that counts visits, with the noise of the unit's budget."""
    common = {
        "horizon": world.horizon, "context_bound": TRAITS**0.5, "reward_noise": 0.1,
        "reward_bound": world.reward_bound, "exploration": 1.0,
    }  # fmt: skip
    budget = budget_for(unit)
    if unit == "a person":
        return LinUCB(
            OFFERS, TRAITS, budget=budget, participation=rule(world), source=source, **common
        )
    planned = LinUCB(OFFERS, TRAITS, budget=budget, **common).plan
    kept = {"budget": None, "plan": planned, "participation": rule(world)}
    return LinUCB(OFFERS, TRAITS, source=source, **kept, **common)


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", default="recommender_people.png")
    parser.add_argument("--quick", action="store_true", help="20 000 visits, one run")
    options = parser.parse_args(arguments)
    runs, most = (1, 20_000) if options.quick else (options.runs, options.rounds)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    horizons = sorted({max(1000, most // part) for part in (30, 10, 3, 1)})
    units = ("a visit", "a group", "a person", "no privacy")
    table = {unit: [] for unit in ("random offer", *units)}
    for horizon in horizons:
        world = LinearWorld(OFFERS, TRAITS, horizon, norm=np.inf, seed=0)
        who = np.random.default_rng(1).integers(max(1, horizon // VISITS), size=horizon)
        world.reset()
        blind = play_bandit(Random(0), world).pseudo_regret(world.means)[-1]
        table["random offer"].append(blind / horizon)
        for unit in units:
            ends = []
            for run in range(runs):
                source = dpoco.evaluation.SeedTree(0).child(unit, run).source()
                learner = recommender(unit, world, source)
                trace = learner.run(world.contexts, world.rewards, persons=who)
                ends.append(trace.pseudo_regret(world.means)[-1])
            table[unit].append(np.median(ends) / horizon)

    print(f"{'budget for':14}{'a person has epsilon':>22}  regret per visit, of "
          + ", ".join(f"{horizon:,}" for horizon in horizons))  # fmt: skip
    for name, regrets in table.items():
        promise = "-"
        if name in units[:3]:
            promise = f"{recommender(name, world).guarantee.epsilon_at(DELTA):.2f}"
        print(f"{name:14}{promise:>22}  " + " ".join(f"{value:8.4f}" for value in regrets))
    axes = new_figure((6.4, 4.4)).subplots()
    for name, regrets in table.items():
        axes.loglog(horizons, regrets, marker="o", label=name)
    axes.set(xlabel="visits in all", ylabel="regret per visit", title="epsilon = 2 for ...")
    axes.legend(frameon=False)
    print(f"\n{recommender('a person', world).guarantee}\nwrote {options.output}")
    axes.figure.savefig(options.output)


if __name__ == "__main__":
    main()
