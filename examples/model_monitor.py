"""How good is the private model, hour by hour? Its accuracy, privately, under one ledger.

Usage: python examples/model_monitor.py [--hours H] [--output FILE] [--quick]

A learner predicts whether a machine will fail, before it sees what happened. Whether it was right,
and its loss, go to a monitor that releases accuracy and mean loss of every hour and of the last
day, with bands for the noise. Learner and monitor see the same records, so one ledger is charged
for both. Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.plotting import STYLE, new_figure
from dpoco.statistics import Last, Mean, Monitor, Share

PER_HOUR, DELTA = 500, 1e-6


def draw_records(hours):
    """Return features of norm at most 1, and failures; the cause changes in the middle."""
    rng = np.random.default_rng(0)
    n = hours * PER_HOUR
    features = np.column_stack([rng.uniform(-1.0, 1.0, (n, 3)), np.ones(n)]) / 2.0
    cause = np.where(np.arange(n)[:, None] < n // 2, [9.0, -6.0, 0.0, 0.0], [-9.0, 6.0, 3.0, 0.0])
    chance = 1.0 / (1.0 + np.exp(-np.sum(features * cause, axis=1)))
    return features, (rng.random(n) < chance).astype(float)


def play(hours):
    """Return the releases, and the true accuracy of every hour."""
    features, failed = draw_records(hours)
    ledger = Ledger(dpoco.Budget(epsilon=4.0, delta=1e-5), relation="replace", unit="one record")
    learner = dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(4, p=2.0, radius=10.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=len(failed),
        budget=dpoco.Budget(3.0, DELTA),
    )
    monitor = Monitor(
        {"accuracy": Share(column="right"), "loss": Mean(0.0, 2.0)},
        every=None,
        releases=hours,
        budget=dpoco.Budget(1.5, DELTA),
        views=["interval", Last(min(24, hours))],
        relation="replace",
    )
    for each, name in ((learner, "model"), (monitor, "its accuracy")):
        ledger.charge(each.guarantee, name, same_unit=True)
    releases, truth = [], []
    for hour in range(hours):
        now = slice(hour * PER_HOUR, (hour + 1) * PER_HOUR)
        decisions = learner.run(features[now], failed[now]).decisions
        margins = np.sum(decisions * features[now], axis=1)  # each before its record was seen
        right = (margins > 0.0) == (failed[now] > 0.5)
        monitor.add_many(
            {"right": right, "loss": np.logaddexp(0.0, margins) - failed[now] * margins}
        )
        releases.append(monitor.release())
        truth.append(float(right.mean()))
    return releases, np.array(truth), ledger


def main(arguments=None):
    """Play, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=int, default=240)
    parser.add_argument("--output", default="model_monitor.png")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    hours = 48 if options.quick else options.hours
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
        releases, truth, ledger = play(hours)
    views = list(releases[0].vectors)
    inside = 0
    matplotlib.use("Agg")
    with matplotlib.rc_context(STYLE):
        canvas = new_figure((6.4, 3.2))
        axes = canvas.subplots()
        for view, color in zip(views, ("C0", "C1"), strict=True):
            bounds = np.array([release.bounds("accuracy", view) for release in releases])
            values = [release.value("accuracy", view) for release in releases]
            values = [np.nan if value is None else value for value in values]
            axes.fill_between(range(hours), *bounds.T, color=color, alpha=0.25, lw=0)
            axes.plot(values, color=color, label=f"accuracy, {view}")
            if view == "interval":
                inside = int(((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).sum())
        axes.plot(truth, "k.", ms=2.0, label="without noise (not published)")
        axes.set(xlabel="hour", ylabel="share of right predictions")
        axes.legend(loc="lower right")
        canvas.savefig(options.output)
    print(f"the band of an hour covers the accuracy without noise in {inside} of {hours} hours")
    print(f"spent: {ledger.spent:.0%} of epsilon = {ledger.budget.epsilon:g} for model and monitor")
    print(releases[-1])


if __name__ == "__main__":
    main()
