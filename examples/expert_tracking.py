"""Private trackers of the best expert: what a budget costs, on a short stream and on a long one.

Usage: python examples/expert_tracking.py [--rounds N] [--repeats R] [--output FILE] [--quick]

Streams: 1001 days of five pollsters; N rounds of ten experts, another one good after each sixth.
Learners face them at epsilon = 1 and 8 (delta = 1e-6; 0 for the shift detector) and without
privacy. Regret is against the best 5-switch sequence in hindsight. A learner should beat the best
single expert and blind play, uniform in every round. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.environments import SwitchingStochastic
from dpoco.evaluation import best_expert, best_switching_sequence, play, repeat
from dpoco.experts import BatchShare, ObliviousTracker, ShiftDetector
from dpoco.plotting import STYLE, new_figure, plot_decisions, plot_regret

SWITCHES = 5
BUDGETS = {"epsilon = 1": 1.0, "epsilon = 8": 8.0, "no privacy": None}
LEARNERS = {
    "tracker": (ObliviousTracker, 1e-6, {"switches": SWITCHES}),
    "batch share": (BatchShare, 1e-6, {"switches": SWITCHES}),
    "shift detector": (ShiftDetector, 0.0, {"expected_shifts": SWITCHES}),
}


class Scripted:
    """Plays a given sequence, whatever happens."""

    round = 0

    def __init__(self, decisions: np.ndarray) -> None:
        self.horizon, self.decisions = len(decisions), iter(decisions.tolist())

    def decide(self) -> int:
        return next(self.decisions)

    def observe(self, losses: np.ndarray) -> None: ...


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", default="expert_tracking.png")
    parser.add_argument("--quick", action="store_true", help="30 000 rounds, three repeats")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.repeats = 30_000, 3
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    world = SwitchingStochastic(10, options.rounds, switches=SWITCHES, gap=0.4, seed=1)
    streams = {"pollsters": dpoco.datasets.pollster_losses(), "switching world": world.matrix()}
    figure = new_figure((8.4, 13.0))
    panels = figure.subplots(4, 2, gridspec_kw={"height_ratios": [3, 1.1, 3, 1.6]})
    for row, (stream, losses) in enumerate(streams.items()):
        (rounds, experts), best = losses.shape, best_switching_sequence(losses, SWITCHES)
        blind = np.random.default_rng(0).integers(experts, size=rounds)
        single = np.full(rounds, best_expert(losses).decision)
        scripts = {"blind play": blind, "best single expert": single}
        fixed = {name: play(Scripted(one), losses) for name, one in scripts.items()}
        print(f"\n{stream}, T = {rounds}, N = {experts}")
        print(f"{'learner':19}{'budget':12} {'regret':>9} {'bound':>9} {'switches':>9}")
        for name, trace in fixed.items():
            print(f"{name:31} {trace.regret(best)[-1]:9.0f} {'-':>9} {len(trace.switches):9}")
        top = 0.0
        promise = BatchShare(experts, horizon=rounds, budget=dpoco.Budget(1.0, 1e-6)).guarantee
        for column, (title, epsilon) in enumerate(BUDGETS.items()):
            runs = {}
            for name, (kind, delta, extra) in LEARNERS.items():
                budget = None if epsilon is None else dpoco.Budget(epsilon, delta)
                settings = {"horizon": rounds, "budget": budget, **extra}

                plan = kind(experts, **settings).plan

                def build(source, kind=kind, experts=experts, plan=plan, settings=settings):
                    return kind(experts, plan=plan, source=source, **settings)

                played = repeat(build, losses, repeats=options.repeats, seed=1)
                runs[name] = list(played.values())
                regret = np.median([trace.regret(best)[-1] for trace in runs[name]])
                switches = np.median([len(trace.switches) for trace in runs[name]])
                top = max(top, 1.4 * regret)  # the budgets of a stream share a scale
                bound = plan.forecast.regret_bound
                print(f"{name:19}{title:12} {regret:9.0f} {bound:9.0f} {switches:9.0f}")
            if epsilon is None:  # only printed
                continue
            upper, lower = panels[2 * row][column], panels[2 * row + 1][column]
            plot_regret(runs | fixed, comparator=best, ax=upper)
            upper.set(ylim=(-0.03 * top, top), title=f"{stream}, {title}")
            plot_decisions(runs["tracker"][0], comparator=best, ax=lower)
            lower.set_title("one run of the tracker; behind: best sequence", loc="left")
    figure.savefig(options.output)
    print(f"\n{promise}\nwrote {options.output}")


if __name__ == "__main__":
    main()
