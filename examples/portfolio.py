"""Which stock to hold, learned privately and with few trades: wealth, trades and what they cost.

Usage: python examples/portfolio.py [--runs R] [--output FILE] [--quick]

Ten stocks over five years represent confidential records, such as the profits of ten desks. All
holdings together are private for replacing one day. The selector holds one stock and seldom trades.
The noisy leader holds a mixture and changes it every day. Trading costs 0.1 %. The right panel has
the same days drawn again, with replacement. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse

import matplotlib
import numpy as np

import dpoco
from dpoco.plotting import STYLE, new_figure, plot_switches

COST, YEAR, N = 0.001, 252, len(dpoco.datasets.STOCKS)
LARGEST = 0.2  # public: 0.5 is a day without change; one of more than 4 percent counts as 4
LEARNERS = {
    "selector, epsilon = 1": ("#0072B2", "-", 1.0),
    "selector, epsilon = 0.1": ("#D55E00", "--", 0.1),
    "selector, without privacy": ("#009E73", ":", None),
    "noisy leader, epsilon = 1": ("#CC79A7", "-.", 1.0),
}
PLAYERS = {"best stock": ("k", "-", None), "equal parts": ("0.5", "--", None), **LEARNERS}


def build(name, horizon, source):
    epsilon = LEARNERS[name][2]
    options = {"horizon": horizon, "source": source}
    if name.startswith("selector"):
        options["budget"] = None if epsilon is None else dpoco.Budget(epsilon, 0.0)
        clip = (0.5 - LARGEST, 0.5 + LARGEST)
        return dpoco.experts.EpochSelector(N, loss_range=clip, **options)
    simplex, loss = dpoco.domains.Simplex(N), dpoco.losses.LinearLoss(gradient_bound=LARGEST)
    return dpoco.oco.NoisyFTRL(simplex, loss, budget=dpoco.Budget(epsilon, 1e-6), **options)


def hold(name, losses, run):
    """Play the market; return the trace and what was held every day, shape (T, N)."""
    learner = build(name, len(losses), dpoco.evaluation.SeedTree(0).child(name, run).source())
    trace = learner.run(losses if name.startswith("selector") else losses - 0.5)
    return trace, np.eye(N)[trace.decisions] if name.startswith("selector") else trace.decisions


def log_wealth(weights, losses):
    traded = np.abs(np.diff(weights, axis=0, prepend=weights[:1])).sum(axis=1)
    return np.cumsum(np.log1p((weights * (0.1 - 0.2 * losses)).sum(axis=1) - COST * traded))


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--output", default="portfolio.png")
    parser.add_argument("--quick", action="store_true", help="3 runs, up to 20 years")
    options = parser.parse_args(arguments)
    runs, factors = (3, (1, 4)) if options.quick else (options.runs, (1, 4, 16, 64))

    figure = new_figure((8.4, 5.6))
    grid = figure.add_gridspec(2, 2, height_ratios=[3, 1.1])
    wealth, growth = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[:, 1])
    days, points = dpoco.datasets.stock_losses(), {name: [] for name in PLAYERS}
    print(build("selector, epsilon = 1", len(days), None).guarantee)
    for factor in factors:
        drawn = np.random.default_rng(0).integers(len(days), size=factor * len(days))
        losses = days if factor == 1 else days[drawn]
        years, best, traces = len(losses) / YEAR, int(losses.sum(axis=0).argmin()), {}
        fixed = {"equal parts": np.full((1, N), 1.0 / N), "best stock": np.eye(N)[[best]]}
        print(f"\n{f'{years:.0f} years':28}{'growth a year':>14}{'trades':>8}")
        for name, (colour, style, _) in PLAYERS.items():
            played = [] if name in fixed else [hold(name, losses, run) for run in range(runs)]
            paths = [log_wealth(one, losses) for _, one in played or [(None, fixed.get(name))]]
            spread = np.quantile(paths, [0.0, 0.5, 1.0], axis=0)  # smallest, median, largest
            points[name].append((years, *(100.0 * np.expm1(spread[:, -1] / years))))
            traces[name] = [trace for trace, _ in played]
            trades = np.median([len(trace.switches) for trace in traces[name]] or [0])
            print(f"{name:28}{points[name][-1][2]:13.1f}%{trades:8.0f}")
            if factor == 1:
                low, middle, high = np.exp(spread[:, ::4])  # every fourth day
                drawn = np.arange(0, len(days), 4)
                wealth.fill_between(drawn, low, high, fc=colour, alpha=0.1)
                wealth.plot(drawn, middle, color=colour, linestyle=style)
        if factor == 1:
            plot_switches({k: traces[k] for k in LEARNERS}, ax=figure.add_subplot(grid[1, 0]))
    for name, (colour, style, _) in PLAYERS.items():
        years, low, middle, high = np.array(points[name]).T
        growth.fill_between(years, low, high, fc=colour, alpha=0.1)
        growth.plot(years, middle, color=colour, linestyle=style, marker="o", label=name)
    wealth.set(xlabel="day", ylabel="wealth", xlim=(0, len(days)), title="five years")
    growth.set(xlabel="years", ylabel="growth a year, percent", xscale="log", title="more years")
    lines, names = growth.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3)
    figure.savefig(options.output)


if __name__ == "__main__":
    main()
