"""Anomaly scores for the sensors of a space shuttle, learned while the stream runs, privately.

Usage: python examples/anomaly_stream.py [--rounds N] [--runs R] [--output FILE] [--quick]

Each record of nine sensors is scored before its label is known, then learned from: test, then
train. A score is the probability that the record is an anomaly (7 % are), an alarm a score above
1/2. All released scorers together are private for replacing one record. The learner is the leader
on noisy sums of logistic gradients, at several budgets. It should beat a scorer that never raises
an alarm. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.evaluation import SeedTree, prequential
from dpoco.plotting import STYLE, new_figure, plot_noise, plot_prequential

BUDGETS = {
    "epsilon = 0.1": dpoco.Budget(0.1, 1e-6),
    "epsilon = 1": dpoco.Budget(1.0, 1e-6),
    "epsilon = 8": dpoco.Budget(8.0, 1e-6),
    "without privacy": None,
}


def build(stream, budget, source=None):
    ball = dpoco.domains.LpBall(stream.dimension, p=2.0, radius=8.0)
    loss = dpoco.losses.LogisticLoss(feature_bound=float(np.sqrt(stream.dimension)))
    return dpoco.oco.NoisyFTRL(ball, loss, horizon=len(stream), budget=budget, source=source)


def anomalies_caught(margins, labels):
    return np.where(labels > 0.5, margins > 0.0, np.nan)  # of anomalies only: others do not count


def false_alarms(margins, labels):
    return np.where(labels > 0.5, np.nan, margins > 0.0)


MEASURES = {"anomalies_caught": anomalies_caught, "false_alarms": false_alarms}


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=49_097)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--output", default="anomaly_stream.png")
    parser.add_argument("--quick", action="store_true", help="8000 rounds, two runs")
    options = parser.parse_args(arguments)
    runs = 2 if options.quick else options.runs
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    stream = dpoco.datasets.load("shuttle").take(8000 if options.quick else options.rounds)
    share = float(stream.labels.mean())
    print(f"{len(stream)} records, {share:.1%} of them anomalies")
    print(f"{'':18}{'wrong':>8}{'caught':>8}{'false alarms':>14}{'log loss':>10}")
    constant = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
    print(f"{'never an alarm':18}{share:8.2%}{0:8.0%}{0:14.2%}{constant:10.3f}")
    results = {}
    for name, budget in BUDGETS.items():
        results[name] = [
            prequential(
                build(stream, budget, SeedTree(0).child(name, run).source()),
                stream,
                measures=MEASURES,
            )
            for run in range(1 if budget is None else runs)
        ]
        columns = ("error", "anomalies_caught", "false_alarms", "loss")
        wrong, caught, false, loss = (
            np.median([result.overall[column] for result in results[name]]) for column in columns
        )
        print(f"{name:18}{wrong:8.2%}{caught:8.0%}{false:14.2%}{loss:10.3f}")
    print(f"\nfor each budget as for this one:\n{build(stream, BUDGETS['epsilon = 1']).guarantee}")
    figure = new_figure((8.4, 7.6))
    (errors, caught), (noise, empty) = figure.subplots(2, 2)
    empty.remove()
    plot_prequential(results, measure="error", ax=errors)
    errors.axhline(share, color="k", linewidth=0.8)
    errors.set_ylim(0.0, 3.0 * share)
    errors.set_title("share of wrong scores; line: never an alarm", loc="left")
    plot_prequential(results, measure="anomalies_caught", ax=caught)
    caught.set_title("share of anomalies with an alarm", loc="left")
    private = {name: build(stream, budget) for name, budget in BUDGETS.items() if budget}
    plot_noise(private, per_round=True, ax=noise)
    noise.set_title("noise in the mean gradient", loc="left")
    figure.savefig(options.output)
    print(f"\nwrote {options.output}")


if __name__ == "__main__":
    main()
