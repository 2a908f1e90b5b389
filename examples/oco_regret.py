"""Regret of the Euclidean learners on real streams, against what is proven for them.

Usage: python examples/oco_regret.py [--rounds N] [--epsilon E] [--output FILE] [--quick]

Three problems: which logistic classifier flags the shuttle's anomalies, which direction separates
them best on average, and which mixture of five pollsters errs least. Every learner protects one
round with the same (epsilon, delta); "published" is the same algorithm with its published
parameters. Regret and bounds are per round. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import matplotlib
import numpy as np

import dpoco
from dpoco.evaluation import best_fixed_decision, repeat
from dpoco.plotting import STYLE, new_figure

LEADER, FTRL = dpoco.oco.CoupledRegularizedLeader, dpoco.oco.NoisyFTRL
WEIGHTS = dpoco.oco.ContinuousMultiplicativeWeights
PAPERS = {
    LEADER: dpoco.published.agarwal_ctrl.coupled_regularized_leader,
    WEIGHTS: dpoco.published.agarwal_lazy.continuous_multiplicative_weights,
}


def problems(rounds: int) -> list[tuple[Any, ...]]:
    """Title, domain, loss, features, labels and learners of each problem."""
    shuttle = dpoco.datasets.load("shuttle").take(rounds)
    polls = dpoco.datasets.pollster_losses()[:rounds]
    d, length = shuttle.dimension, float(np.sqrt(shuttle.dimension))
    return [
        (
            f"shuttle anomalies, logistic loss, T = {len(shuttle)}, d = {d}",
            dpoco.domains.LpBall(d, 2.0, 4.0),
            dpoco.losses.LogisticLoss(feature_bound=length),
            *(shuttle.features, shuttle.labels),
            [("CTRL", LEADER), ("CTRL, published", LEADER), ("noisy FTRL", FTRL)],
        ),
        (
            f"shuttle direction, linear loss, T = {len(shuttle)}, d = {d}",
            dpoco.domains.LpBall(d, 2.0, 1.0),
            dpoco.losses.LinearLoss(gradient_bound=length),
            *(shuttle.features * (1.0 - 2.0 * shuttle.labels[:, None]), None),
            [
                ("noisy FTRL", FTRL),
                ("P-COMW", WEIGHTS),
                ("P-COMW, published", WEIGHTS),
            ],
        ),
        (
            f"pollsters, linear loss, T = {len(polls)}, d = {polls.shape[1]}",
            dpoco.domains.Simplex(polls.shape[1]),
            dpoco.losses.LinearLoss(gradient_bound=1.0),
            *(polls, None),
            [("noisy FTRL", FTRL), ("CTRL", LEADER), ("CTRL, published", LEADER)],
        ),
    ]


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--output", default="oco_regret.png")
    parser.add_argument("--quick", action="store_true", help="1001 rounds")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds = 1001

    figure, cases = new_figure((8.4, 11.4)), problems(options.rounds)
    for axes, case in zip(figure.subplots(len(cases), 1), cases, strict=True):
        title, domain, loss, features, labels, learners = case
        rounds = len(features)
        budget = dpoco.Budget(options.epsilon, 1.0 / (10.0 * rounds))
        best = best_fixed_decision(domain, loss, features, labels)
        print(f"\n{title}; epsilon = {options.epsilon:g}, delta = {budget.delta:.2g}")
        print(f"{'learner':20} {'regret':>9} {'bound':>9} {'switches':>9}")
        bounds, runs = {}, {}
        for name, kind in learners:
            build = partial(kind, domain, loss, horizon=rounds, budget=budget)
            if name.endswith("published"):
                printed = PAPERS[kind](domain, loss, horizon=rounds, budget=budget)
                build = partial(build, plan=printed)
            plan = build().plan
            build = partial(build, plan=plan)
            bounds[name] = plan.forecast.regret_bound / rounds
            seeded = {"repeats": 2 if options.quick else 5, "seed": 1}
            played = repeat(lambda s, b=build: b(source=s), features, labels, **seeded)
            runs[name] = list(played.values())
            regret = np.mean([trace.regret(best)[-1] for trace in runs[name]]) / rounds
            switches = np.mean([len(trace.switches) for trace in runs[name]])
            print(f"{name:20} {regret:9.4f} {bounds[name]:9.4f} {switches:9.0f}")
        promise = learners[0][1](domain, loss, horizon=rounds, budget=budget).guarantee
        dpoco.plotting.plot_regret(runs, comparator=best, bounds=bounds, per_round=True, ax=axes)
        axes.set_title(title, fontsize=10)
    figure.savefig(options.output)
    print(f"\n{promise}\nwrote {options.output}")


if __name__ == "__main__":
    main()
