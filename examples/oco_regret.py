"""Regret of the Euclidean learners on real streams, against what is proven for them.

Usage: python examples/oco_regret.py [--rounds N] [--repeats R] [--epsilon E] [--figure FILE]

Three problems: which logistic classifier flags the shuttle's anomalies, which direction separates
them best on average, and which mixture of five pollsters errs least. Every learner protects one
round with the same (epsilon, delta); "published" is the same algorithm with its published
parameters. Regret and bounds are per round. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import dpoco
from dpoco.evaluation import best_fixed_decision, repeat_runs

Learner = tuple[str, type, dict[str, Any]]

LEADER = dpoco.oco.CoupledRegularizedLeader
WEIGHTS = dpoco.oco.ContinuousMultiplicativeWeights
FTRL = dpoco.oco.NoisyFTRL


def problems(rounds: int) -> list[tuple[str, Any, Any, Any, Any, list[Learner]]]:
    """Title, domain, loss, features, labels and learners of each problem."""
    shuttle = dpoco.datasets.load("shuttle").take(rounds)
    polls = dpoco.datasets.pollster_losses()[:rounds]
    d = shuttle.dimension
    return [
        (
            f"shuttle anomalies, logistic loss, T = {len(shuttle)}, d = {d}",
            dpoco.domains.LpBall(d, 2.0, 4.0),
            dpoco.losses.LogisticLoss(feature_bound=float(np.sqrt(d))),
            shuttle.features,
            shuttle.labels,
            [
                ("CTRL", LEADER, {}),
                ("CTRL, published", LEADER, {"calibration": "paper"}),
                ("noisy FTRL", FTRL, {}),
            ],
        ),
        (
            f"shuttle direction, linear loss, T = {len(shuttle)}, d = {d}",
            dpoco.domains.LpBall(d, 2.0, 1.0),
            dpoco.losses.LinearLoss(gradient_bound=float(np.sqrt(d))),
            shuttle.features * (1.0 - 2.0 * shuttle.labels[:, None]),
            None,
            [
                ("noisy FTRL", FTRL, {}),
                ("P-COMW", WEIGHTS, {}),
                ("P-COMW, published", WEIGHTS, {"calibration": "paper"}),
            ],
        ),
        (
            f"pollsters, linear loss, T = {len(polls)}, d = {polls.shape[1]}",
            dpoco.domains.Simplex(polls.shape[1]),
            dpoco.losses.LinearLoss(gradient_bound=1.0),
            polls,
            None,
            [
                ("noisy FTRL", FTRL, {}),
                ("CTRL", LEADER, {}),
                ("CTRL, published", LEADER, {"calibration": "paper"}),
            ],
        ),
    ]


def builder(*problem: Any, **options: Any) -> Callable[[dpoco.random.Source], Any]:
    kind, *rest = problem
    return lambda source: kind(*rest, source=source, **options)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--figure", default="oco_regret.png")
    options = parser.parse_args(arguments)

    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.2), layout="constrained")
    cases = problems(options.rounds)
    for axes, (title, domain, loss, features, labels, learners) in zip(
        figure.subplots(1, len(cases)), cases, strict=True
    ):
        rounds = len(features)
        budget = dpoco.Budget(options.epsilon, 1.0 / (10.0 * rounds))
        best = best_fixed_decision(domain, loss, features, labels)
        print(f"\n{title}; epsilon = {options.epsilon:g}, delta = {budget.delta:.2g}")
        print(f"{'learner':20} {'regret':>9} {'bound':>9} {'switches':>9}")
        bounds, runs = {}, {}
        for name, kind, extra in learners:
            build = builder(kind, domain, loss, horizon=rounds, budget=budget, **extra)
            bounds[name] = build(dpoco.random.Source.seeded(0)).parameters.regret_bound / rounds
            traces = repeat_runs(build, features, labels, repeats=options.repeats, seed=1)
            runs[name] = traces
            regret = np.mean([trace.regret(best)[-1] for trace in traces]) / rounds
            switches = np.mean([len(trace.switches) for trace in traces])
            print(f"{name:20} {regret:9.4f} {bounds[name]:9.4f} {switches:9.0f}")
        dpoco.plotting.plot_regret_per_round(runs, comparator=best, bounds=bounds, ax=axes)
        axes.set_title(title, fontsize=10)
    figure.savefig(options.figure, dpi=140)
    print(f"\nwrote {options.figure}")


if __name__ == "__main__":
    main()
